# bash completion of mpprecord: its options, then the command's own completion. The options are compared with --help by
# tests/suite/mpprecord_completion_test.rb.
_mpprecord() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i word
    COMPREPLY=()
    if [[ ${COMP_WORDS[1]} == ctl && $COMP_CWORD -gt 1 ]]; then
        case $COMP_CWORD in
        2) mapfile -t COMPREPLY < <(compgen -W "--timeout --help $(_mpprecord_pids)" -- "$cur") ;;
        3) mapfile -t COMPREPLY < <(compgen -W "start stop pause resume mark flush stats" -- "$cur") ;;
        esac
        return
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        -o | --output | --rate | --max-depth | --max-log-bytes | --max-tracked | --max-stacks | --mark-at-rss | --journal-bytes | --signal) ((i++)) ;;
        --)
            _mpprecord_command $((i + 1))
            return
            ;;
        -*) ;;
        =*) ((i++)) ;; # bash splits --rate=1/10 at its sign
        *)
            _mpprecord_command "$i"
            return
            ;;
        esac
    done
    case $prev in
    -o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    --signal) mapfile -t COMPREPLY < <(compgen -W "USR1 USR2 HUP" -- "$cur") ;;
    --rate) mapfile -t COMPREPLY < <(compgen -W "1/10 1/100 1/1000" -- "$cur") ;;
    --max-depth | --max-log-bytes | --max-tracked | --max-stacks | --mark-at-rss | --journal-bytes) ;;
    *)
        if [[ $cur == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "-o --output --rate --max-depth --baseline --max-log-bytes --max-tracked --max-stacks \
                --mark-at-rss --journal-bytes --paused --control --signal --force --quiet --version --help" -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            ((COMP_CWORD == 1)) && [[ ctl == "$cur"* ]] && COMPREPLY+=(ctl)
        fi
        ;;
    esac
}

# Processes that can be controlled.
_mpprecord_pids() {
    local socket
    for socket in "${XDG_RUNTIME_DIR:-/tmp}/mpp-$UID"/*.sock "/tmp/mpp-$UID"/*.sock; do
        socket=${socket##*/}
        [[ $socket == [0-9]* ]] && echo "${socket%.sock}"
    done
}

# The words from the given one on, completed as if they stood alone.
_mpprecord_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}

complete -F _mpprecord mpprecord
