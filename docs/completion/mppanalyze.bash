# bash completion of mppanalyze. The options of each command are compared with --help by tests/suite/docs_test.rb.

_mppanalyze_options() { # COMMAND
    local every='--format -o --output --color -q --quiet -h --help --version'
    local filters='--focus --ignore --class --min-age --recorder'
    local rows="--by --sort --limit --raw $filters"
    case $1 in
    pprof) echo "--at $filters $every" ;;
    top) echo "--at $rows $every" ;;
    diff) echo "--from --to $rows $every" ;;
    timeline) echo "--points --raw $every" ;;
    info) echo "--raw $every" ;;
    dump) echo "--limit --all $every" ;;
    verify) echo "$every" ;;
    esac
}

_mppanalyze() {
    local commands='pprof top diff timeline info dump verify'
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=pprof word words i
    COMPREPLY=()

    # the command is the first word that is none of mppanalyze's options
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ " $commands " == *" $word "* ]]; then
            command=$word
            break
        fi
    done

    case $previous in
    --at | --from | --to) words='start end peak mark: gc:' ;;
    --by) words='stack line method file class type thread' ;;
    --color) words='auto always never' ;;
    --format)
        case $command in
        pprof) words='pprof' ;;
        top | diff) words='text json pprof folded' ;;
        *) words='text json' ;;
        esac
        ;;
    --sort)
        case $command in
        diff) words='retained_bytes retained_objects delta_bytes delta_objects to_bytes name' ;;
        *) words='live_bytes live_objects allocated_bytes allocated_objects freed_bytes freed_objects name' ;;
        esac
        ;;
    --limit | --min-age | --points | --focus | --ignore | --class) return ;;
    -o | --output)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    *)
        if [[ $current == -* ]]; then
            words=$(_mppanalyze_options "$command")
        else
            ((COMP_CWORD == 1)) && mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
            compopt -o filenames 2>/dev/null
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(
                compgen -f -X '!*.mpp' -- "$current"
                compgen -d -- "$current"
            )
            return
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    [[ ${COMPREPLY[0]-} == *: ]] && compopt -o nospace 2>/dev/null
}

complete -F _mppanalyze mppanalyze
