# mpp: recorder and analyzer of the Ruby heap. `make help` lists what can be made.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= cc
RUBY ?= ruby
CLANG_FORMAT ?= clang-format
CLANG_TIDY ?= clang-tidy
VERSION := $(shell cat VERSION)
# SAN=address,undefined or SAN=thread builds into a directory of its own.
SAN ?=
ifneq ($(SAN),)
comma := ,
BUILD := build/san-$(subst $(comma),-,$(SAN))
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif
WERROR ?= -Werror
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
# CPPFLAGS, CFLAGS, LDFLAGS and LDLIBS are the caller's; these are what the code cannot do without.
MPP_CPPFLAGS := -I. -I$(BUILD) -D_GNU_SOURCE -DMPP_TOOL_VERSION='"$(VERSION)"' $(CPPFLAGS)
MPP_CFLAGS := -std=gnu11 $(SANFLAGS) $(CFLAGS)
MPP_LDFLAGS := $(SANFLAGS) $(LDFLAGS)
MPP_LDLIBS := -lm -lprotobuf-c -ljansson -lxxhash -lzstd -lz -lpthread $(LDLIBS)

FORMATS_SRC := $(wildcard formats/*.c)
ANALYZER_SRC := $(filter-out analyzer/main.c,$(wildcard analyzer/*.c))
FORMATS_OBJ := $(FORMATS_SRC:%.c=$(BUILD)/%.o) $(BUILD)/proto/profile.pb-c.o
ANALYZER_OBJ := $(ANALYZER_SRC:%.c=$(BUILD)/%.o)
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c)) $(BUILD)/tests/fuzz/replay_corpus
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(wildcard tests/tools/*.c))
SUITE := $(wildcard tests/suite/*_test.rb)

all: $(BUILD)/mppanalyze recorder ## build mppanalyze and the recorder into BUILD (the default)

# A file that changes only when its text does: what depends on it is built anew when the flags or the list of sources changed.
remember = @mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(1))' >$@
# V=1 shows whole command lines.
quietly = $(if $(V),,@echo '  $(1) $@';)
FORCE:
$(BUILD)/flags: FORCE
	$(call remember,$(CC) $(MPP_CPPFLAGS) $(WARNINGS) $(MPP_CFLAGS) / $(MPP_LDFLAGS) $(MPP_LDLIBS))
$(BUILD)/objects: FORCE
	$(call remember,$(FORMATS_OBJ) $(ANALYZER_OBJ))

$(BUILD)/proto/profile.pb-c.c $(BUILD)/proto/profile.pb-c.h &: proto/profile.proto
	@mkdir -p $(BUILD)/proto
	$(call quietly,gen )protoc-c --proto_path=proto --c_out=$(BUILD)/proto $<

# generated, so its warnings are not ours
$(BUILD)/proto/%.o: $(BUILD)/proto/%.c $(BUILD)/flags
	$(call quietly,cc  )$(CC) $(MPP_CPPFLAGS) -w $(MPP_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/flags | $(BUILD)/proto/profile.pb-c.h
	@mkdir -p $(@D)
	$(call quietly,cc  )$(CC) $(MPP_CPPFLAGS) $(WARNINGS) $(WERROR) $(MPP_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libmppformats.a: $(FORMATS_OBJ) $(BUILD)/objects
	$(call quietly,ar  )rm -f $@ && $(AR) rcs $@ $(FORMATS_OBJ)

$(BUILD)/libmppanalyzer.a: $(ANALYZER_OBJ) $(BUILD)/objects
	$(call quietly,ar  )rm -f $@ && $(AR) rcs $@ $(ANALYZER_OBJ)

$(BUILD)/mppanalyze: $(BUILD)/analyzer/main.o $(BUILD)/libmppanalyzer.a $(BUILD)/libmppformats.a
	$(call quietly,link)$(CC) $(MPP_CFLAGS) $(MPP_LDFLAGS) -o $@ $^ $(MPP_LDLIBS)

# cmocka tests, and tools of the tests (log generators)
$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libmppanalyzer.a $(BUILD)/libmppformats.a
	$(call quietly,link)$(CC) $(MPP_CFLAGS) $(MPP_LDFLAGS) -o $@ $^ -lcmocka $(MPP_LDLIBS)

# its own malloc, which fails on demand; private, lest the flags of all else change
$(BUILD)/tests/unit/test_no_memory: private MPP_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=ZSTD_createCCtx,--wrap=ZSTD_createDCtx
$(BUILD)/tests/unit/test_no_memory_reports: private MPP_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=realpath \
	-Wl,--wrap=asprintf,--wrap=vasprintf,--wrap=aligned_alloc,--wrap=ZSTD_createDCtx

# those of the recorder's rooms that know no Ruby
RECORDER_PLAIN := $(patsubst %,$(BUILD)/recorder/ext/mpp_recorder/%.o,slots idmap identities stacks journal log_file bus_guard)
$(RECORDER_PLAIN) $(BUILD)/tests/unit/test_recorder_%.o: MPP_CPPFLAGS += -Iformats -Irecorder/ext/mpp_recorder
$(BUILD)/tests/unit/test_recorder_no_memory: private MPP_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
$(BUILD)/tests/unit/test_recorder_%: $(BUILD)/tests/unit/test_recorder_%.o $(RECORDER_PLAIN) $(BUILD)/libmppformats.a
	$(call quietly,link)$(CC) $(MPP_CFLAGS) $(MPP_LDFLAGS) -o $@ $^ -lcmocka $(MPP_LDLIBS)

# fuzz targets: all in one test without a fuzzer, and each with libFuzzer (`make fuzz`)
FUZZ_LIBS := $(BUILD)/tests/fuzz/fuzz.o $(BUILD)/libmppanalyzer.a $(BUILD)/libmppformats.a
$(BUILD)/tests/fuzz/replay_corpus: $(BUILD)/tests/fuzz/replay_corpus.o $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/%.o) $(FUZZ_LIBS)
	$(call quietly,link)$(CC) $(MPP_CFLAGS) $(MPP_LDFLAGS) -o $@ $^ -lcmocka $(MPP_LDLIBS)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_LIBS)
	$(call quietly,link)$(CC) $(MPP_CFLAGS) $(MPP_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(MPP_LDLIBS)

$(BUILD)/tests/tools/%: $(BUILD)/tests/tools/%.o $(BUILD)/libmppformats.a
	$(call quietly,link)$(CC) $(MPP_CFLAGS) $(MPP_LDFLAGS) -o $@ $^ $(MPP_LDLIBS)

tools: $(TOOLS) ## build the tests' own tools (generators of logs)
unit-build: $(UNIT)
unit: $(UNIT) ## build and run the cmocka tests (SAN=address,undefined under sanitizers)
	@set -e; for t in $(UNIT); do echo "== $$t"; $$t; done

# The recorder: a Ruby extension, built out of tree by its own extconf.rb.
RUBY_ABI := $(shell $(RUBY) -e 'print RbConfig::CONFIG["ruby_version"], "-", RbConfig::CONFIG["arch"]' 2>/dev/null)
EXT := $(BUILD)/recorder/$(RUBY_ABI)
RECORDER_C := $(wildcard recorder/ext/mpp_recorder/*.c formats/*.c)

# mkmf's Makefile has variables of our names with other meanings (CFLAGS, RUBY, DESTDIR): none of the caller's may reach it.
recorder: $(EXT)/mpp_recorder.so ## build the Ruby extension alone
$(EXT)/sources: FORCE
	$(call remember,$(RECORDER_C))
$(EXT)/Makefile: recorder/ext/mpp_recorder/extconf.rb $(wildcard recorder/ext/mpp_recorder/depend) recorder/lib/mpp_recorder/version.rb $(EXT)/sources
	@rm -f $(EXT)/*.o
	cd $(EXT) && $(if $(SAN),MPP_SAN=$(SAN)) $(RUBY) $(CURDIR)/recorder/ext/mpp_recorder/extconf.rb
# mkmf knows no dependencies on formats/'s headers: a changed header builds all of the extension anew
$(EXT)/headers: $(wildcard recorder/ext/mpp_recorder/*.h formats/*.h) | $(EXT)/sources
	@rm -f $(EXT)/*.o; touch $@
$(EXT)/mpp_recorder.so: $(EXT)/Makefile $(EXT)/headers $(RECORDER_C)
	MAKEFLAGS=$(findstring n,$(firstword -$(MAKEFLAGS))) $(MAKE) -C $(EXT) --no-print-directory -j2
	@touch $@

# ---- what the system must have
need = tests/ci/deps.sh --check $(1) 2>/dev/null || tests/ci/deps.sh $(1)

deps: ## install what build, tests, checks and demo need (apt-get as root or through sudo -n; elsewhere: lists it)
	@tests/ci/deps.sh
deps-fuzz: ## install clang, for `make fuzz`
	@tests/ci/deps.sh build fuzz
deps-bench: ## install what the benchmarks compare with
	@tests/ci/deps.sh build bench
	@$(RUBY) tests/bench/record.rb --install --rounds 0

# ---- tests. The work is done by a second make, since a ruby that was missing is known only to it.
SANBUILD := $(BUILD)/san-address-undefined
SUBMAKE := $(MAKE) --no-print-directory

test: ## everything: unit tests, unit tests under ASan and UBSan, Ruby suites; ONLY=PART picks by path, VERBOSE=1 shows all output
	@$(call need,build test)
	@$(SUBMAKE) WERROR=-Werror all tools unit-build
	@$(SUBMAKE) BUILD=$(SANBUILD) SAN=address,undefined WERROR=-Werror unit-build
	@MPP_BUILD=$(abspath $(BUILD)) UBSAN_OPTIONS=print_stacktrace=1 $(RUBY) tests/run.rb \
		--unit 'unit tests' $(UNIT) \
		--unit 'unit tests under address and undefined' $(UNIT:$(BUILD)/%=$(SANBUILD)/%) \
		--suite 'suites' $(SUITE)

suite: all tools ## the Ruby suites alone
	@MPP_BUILD=$(abspath $(BUILD)) $(RUBY) tests/run.rb --suite 'suites' $(SUITE)

# The recorder under other Rubies, those of other Debians: roots and builds of their own (tests/ci/root.sh), so this needs root's rights.
# Not Puma's: version 6.6 under Ruby 3.3 does not always end at SIGTERM, recorded or not.
suite-recorder: all
	@MPP_BUILD=$(abspath $(BUILD)) $(RUBY) tests/run.rb --suite "suites of the recorder, Ruby $$($(RUBY) -e 'print RUBY_VERSION')" \
		$(filter-out %_puma_test.rb,$(filter tests/suite/truth_% tests/suite/recorder_% tests/suite/mpprecord_%,$(SUITE)))
test-ruby33: ## the recorder's suites under Ruby 3.3, in a Debian 13 of their own (root; the first time it is installed)
	@$(call need,rubies)
	@tests/ci/root.sh trixie build/roots/trixie $(SUBMAKE) -j2 BUILD=build/ruby33 suite-recorder
test-ruby34: ## the same under the Ruby 3.4 that Debian has in experimental
	@$(call need,rubies)
	@tests/ci/root.sh experimental build/roots/experimental $(SUBMAKE) -j2 BUILD=build/ruby34 WERROR= suite-recorder

# clang's libFuzzer. New inputs that it finds are kept in build/fuzz/corpus, crashes in build/fuzz/crashes; those belong into fixtures/corpus.
FUZZ_S ?= 60
FUZZBUILD := $(BUILD)/fuzz
fuzz: ## run each fuzz target for FUZZ_S seconds (60) with libFuzzer; ONLY=TARGET picks one
	@$(call need,build fuzz)
	@$(SUBMAKE) BUILD=$(FUZZBUILD) CC=clang SAN=fuzzer-no-link,address,undefined CPPFLAGS=-DMPP_LIBFUZZER $(FUZZ_TARGETS:%=$(FUZZBUILD)/tests/fuzz/%)
	@set -e; for t in $(if $(ONLY),$(filter %$(ONLY),$(FUZZ_TARGETS)),$(FUZZ_TARGETS)); do tests/fuzz/run.sh $(FUZZBUILD) $$t $(FUZZ_S); done

SOAK_S ?= 600
soak: ## a Puma cluster under load for SOAK_S seconds (600) at full rate and as long at 1 %, workers being killed; WORKERS=4
	@$(call need,build demo)
	@$(SUBMAKE) all
	@set -e; n=1; for rate in 1 0.01; do MPP_BUILD=$(abspath $(BUILD)) $(RUBY) tests/soak/soak.rb --seconds $(SOAK_S) --rate $$rate --seed $$n; n=$$((n + 1)); done

demo: ## record a leaky program, find its leak
	@$(call need,build demo)
	@$(SUBMAKE) all
	@MPP_BUILD=$(abspath $(BUILD)) $(RUBY) fixtures/demo.rb

# The parts of a hook's work, each beside what it was chosen over (docs/DECISIONS.md), on the backtraces of LOG.
HOTPATH := recorder/ext/mpp_recorder
LOG ?= $(BUILD)/demo/app.mpp
$(BUILD)/bench/hotpath: tests/bench/hotpath.c $(HOTPATH)/slots.c $(HOTPATH)/stacks.c $(HOTPATH)/journal.c $(BUILD)/libmppformats.a
	@mkdir -p $(@D)
	$(CC) -O2 -D_GNU_SOURCE -Iformats -I$(HOTPATH) -o $@ $^ -lxxhash -lzstd
bench-hotpath: $(BUILD)/bench/hotpath ## the parts of a hook's work beside their alternatives, on the backtraces of LOG=app.mpp (the demo's)
	@$< $(LOG)

bench: ## the benchmarks: recorder, then replay (minutes)
	@$(call need,build bench)
	@$(SUBMAKE) all tools
	@set -e; for b in $(sort $(wildcard tests/bench/record.rb tests/bench/replay.rb)); do \
		echo "== $$b"; MPP_BUILD=$(abspath $(BUILD)) $(RUBY) $$b; done

# ---- checks
C_DIRS := formats analyzer recorder/ext/mpp_recorder tests/unit tests/tools tests/fuzz
C_FILES := $(wildcard $(C_DIRS:%=%/*.c))
H_FILES := $(wildcard $(C_DIRS:%=%/*.h))
STYLED = $(C_FILES) $(H_FILES) $(wildcard tests/bench/*.[ch] tests/bench/*/*.[ch])
RUBY_INCLUDES = $(shell $(RUBY) -rrbconfig -e 'print %w[rubyhdrdir rubyarchhdrdir].map { |k| "-isystem " + RbConfig::CONFIG[k] }.join(" ")')
# clang-tidy counts the warnings of system headers on stderr, which says nothing; its findings are worth reading
QUIETLY = sh -c 'out=$$("$$@" 2>&1) || { printf "%s\n" "$$out"; exit 1; }' sh
# the extension is built with formats/ in its include path
SYNTAX = -DMPP_RECORDER_VERSION='"$(VERSION)"' $(MPP_CPPFLAGS) -Irecorder/ext/mpp_recorder -Iformats -std=gnu11

check: ## formatting, clang-tidy, the layers, headers, lengths of files
	@$(call need,build check)
	@$(SUBMAKE) check-format check-headers check-layers check-lengths check-tidy

check-format: ## clang-format (14, Debian's) agrees with the sources; `make format` makes it so
	@$(CLANG_FORMAT) --dry-run -Werror $(STYLED) && echo "check-format: ok"
format:
	@$(CLANG_FORMAT) -i $(STYLED)

# Only the recorder's room sees Ruby, so that a header of another room that needs it fails here.
check-headers: $(BUILD)/proto/profile.pb-c.h ## every header compiles alone
	@set -e; for h in $(H_FILES); do \
		case $$h in recorder/*) ruby='$(RUBY_INCLUDES)' ;; *) ruby= ;; esac; \
		$(CC) $(SYNTAX) $(WARNINGS) -Werror $$ruby -fsyntax-only -x c $$h; done; echo "check-headers: ok"

check-layers: $(BUILD)/libmppformats.a ## who may include whom, and what formats/ may call
	@$(RUBY) tests/ci/layers.rb $(BUILD)/libmppformats.a

check-lengths: ## no source file over 600 lines without a reason
	@$(RUBY) tests/ci/lengths.rb

check-tidy: $(BUILD)/proto/profile.pb-c.h ## clang-tidy with .clang-tidy
	@printf '%s\n' $(filter-out recorder/%,$(C_FILES)) | xargs -r -P 2 -I{} $(QUIETLY) $(CLANG_TIDY) --quiet {} -- $(SYNTAX)
	@printf '%s\n' $(filter recorder/%,$(C_FILES)) | xargs -r -P 2 -I{} $(QUIETLY) $(CLANG_TIDY) --quiet {} -- $(SYNTAX) $(RUBY_INCLUDES)
	@echo "check-tidy: ok"

# ---- installing. The recorder stands under lib/mpp as in the source tree, so that it finds its extension the same way (locate.rb);
# several Rubies can be served by `make install RUBY=...` for each.
INSTALL ?= install
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
MPPDIR = $(PREFIX)/lib/mpp
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPDIR ?= $(PREFIX)/share/zsh/site-functions
RECORDER_LIB := $(shell find recorder/lib -name '*.rb' 2>/dev/null | sort)
MAN1 := $(wildcard docs/man/*.1)

install: all ## install into PREFIX (DESTDIR= stages it)
	@$(SUBMAKE) install-files
install-files: # of what is built already
	$(INSTALL) -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(MANDIR)/man1" "$(DESTDIR)$(BASHCOMPDIR)" "$(DESTDIR)$(ZSHCOMPDIR)"
	$(INSTALL) -m 755 $(BUILD)/mppanalyze "$(DESTDIR)$(BINDIR)/mppanalyze"
	$(INSTALL) -m 644 $(MAN1) "$(DESTDIR)$(MANDIR)/man1"
	set -e; for p in mppanalyze mpprecord; do \
		$(INSTALL) -m 644 docs/completion/$$p.bash "$(DESTDIR)$(BASHCOMPDIR)/$$p"; \
		$(INSTALL) -m 644 docs/completion/_$$p "$(DESTDIR)$(ZSHCOMPDIR)/_$$p"; done
	$(INSTALL) -d "$(DESTDIR)$(MPPDIR)/recorder/exe" "$(DESTDIR)$(MPPDIR)/build/recorder/$(RUBY_ABI)"
	$(INSTALL) -m 755 recorder/exe/mpprecord "$(DESTDIR)$(MPPDIR)/recorder/exe/mpprecord"
	ln -srf "$(DESTDIR)$(MPPDIR)/recorder/exe/mpprecord" "$(DESTDIR)$(BINDIR)/mpprecord"
	set -e; for f in $(RECORDER_LIB); do $(INSTALL) -D -m 644 $$f "$(DESTDIR)$(MPPDIR)/$$f"; done
	$(INSTALL) -m 755 $(EXT)/mpp_recorder.so "$(DESTDIR)$(MPPDIR)/build/recorder/$(RUBY_ABI)/mpp_recorder.so"

uninstall: ## remove what install put there (same PREFIX and DESTDIR)
	rm -f "$(DESTDIR)$(BINDIR)/mppanalyze" "$(DESTDIR)$(BINDIR)/mpprecord" "$(DESTDIR)$(BASHCOMPDIR)/mppanalyze" "$(DESTDIR)$(BASHCOMPDIR)/mpprecord" \
		"$(DESTDIR)$(ZSHCOMPDIR)/_mppanalyze" "$(DESTDIR)$(ZSHCOMPDIR)/_mpprecord" $(MAN1:docs/man/%="$(DESTDIR)$(MANDIR)/man1/%")
	rm -rf "$(DESTDIR)$(MPPDIR)"

gem: ## build the recorder's gem into BUILD
	@mkdir -p $(BUILD)
	$(RUBY) -S gem build mpp_recorder.gemspec --output $(BUILD)/mpp_recorder-$(VERSION).gem

# An own directory, since coverage changes every object. The recorder is not measured: mkmf builds it.
coverage: ## run the tests with gcov, and tell the covered lines of each file
	@$(call need,build test)
	@$(SUBMAKE) BUILD=$(BUILD)/coverage CFLAGS='-O0 -g --coverage' LDFLAGS=--coverage $(BUILD)/coverage/mppanalyze tools unit-build recorder
	@find $(BUILD)/coverage -name '*.gcda' -delete
	@MPP_BUILD=$(abspath $(BUILD)/coverage) $(RUBY) tests/run.rb --unit 'unit tests' $(UNIT:$(BUILD)/%=$(BUILD)/coverage/%) --suite 'suites' $(SUITE)
	@$(RUBY) tests/ci/coverage.rb $(BUILD)/coverage

clean: ## remove build/
	rm -rf build

help: ## this list
	@echo "make TARGET [VARIABLE=...]"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r t d; do printf '  %-14s %s\n' "$$t" "$$d"; done
	@echo
	@echo "variables: BUILD=$(BUILD)  SAN=address,undefined|thread  PREFIX=$(PREFIX)  DESTDIR=  RUBY=$(RUBY)  CC=$(CC)  CFLAGS='$(CFLAGS)'"
	@echo "           WERROR= (empty: warnings are no errors)  ONLY=  VERBOSE=  MPP_TEST_TIMEOUT=120  V=1 (show commands)"

-include $(patsubst %.o,%.d,$(FORMATS_OBJ) $(ANALYZER_OBJ) $(BUILD)/analyzer/main.o) $(UNIT:%=%.d) $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/%.d) $(BUILD)/tests/fuzz/fuzz.d $(TOOLS:%=%.d) $(RECORDER_PLAIN:%.o=%.d)
.PHONY: bench-hotpath all recorder tools unit unit-build deps deps-bench deps-fuzz fuzz test suite suite-recorder test-ruby33 test-ruby34 soak demo bench check check-format check-headers check-layers \
	check-lengths check-tidy format install install-files uninstall gem coverage clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:
