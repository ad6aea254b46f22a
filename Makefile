# mpp: recorder and analyzer of the Ruby heap. `make help` lists what can be made.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= cc
RUBY ?= ruby
# SAN=address,undefined or SAN=thread builds into a directory of its own.
SAN ?=
ifneq ($(SAN),)
comma := ,
BUILD := build/san-$(subst $(comma),-,$(SAN))
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif
WERROR ?= -Werror
CPPFLAGS += -I. -I$(BUILD) -D_GNU_SOURCE
CFLAGS ?= -O2 -g
CFLAGS += -std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes $(WERROR) $(SANFLAGS)
LDFLAGS += $(SANFLAGS)
LDLIBS += -lprotobuf-c -ljansson -lxxhash -lzstd -lz -lpthread

FORMATS_SRC := $(wildcard formats/*.c)
ANALYZER_SRC := $(filter-out analyzer/main.c,$(wildcard analyzer/*.c))
FORMATS_OBJ := $(FORMATS_SRC:%.c=$(BUILD)/%.o) $(BUILD)/proto/profile.pb-c.o
ANALYZER_OBJ := $(ANALYZER_SRC:%.c=$(BUILD)/%.o)
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(wildcard tests/tools/*.c))

all: $(BUILD)/mppanalyze recorder

$(BUILD)/proto/profile.pb-c.c $(BUILD)/proto/profile.pb-c.h &: proto/profile.proto
	@mkdir -p $(BUILD)/proto
	protoc-c --proto_path=proto --c_out=$(BUILD)/proto $<

$(BUILD)/proto/%.o: $(BUILD)/proto/%.c
	$(CC) $(CPPFLAGS) $(filter-out -W%,$(CFLAGS)) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c | $(BUILD)/proto/profile.pb-c.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libmppformats.a: $(FORMATS_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libmppanalyzer.a: $(ANALYZER_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/mppanalyze: $(BUILD)/analyzer/main.o $(BUILD)/libmppanalyzer.a $(BUILD)/libmppformats.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# cmocka tests, and tools of the tests (log generators)
$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libmppanalyzer.a $(BUILD)/libmppformats.a
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(BUILD)/tests/tools/%: $(BUILD)/tests/tools/%.o $(BUILD)/libmppformats.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

tools: $(TOOLS)
unit: $(UNIT)
	@set -e; for t in $(UNIT); do echo "== $$t"; $$t; done

# The recorder: a Ruby extension, built out of tree by its own extconf.rb.
RUBY_ABI := $(shell $(RUBY) -e 'print RbConfig::CONFIG["ruby_version"], "-", RbConfig::CONFIG["arch"]' 2>/dev/null)
EXT := $(BUILD)/recorder/$(RUBY_ABI)
RECORDER_SRC := $(wildcard recorder/ext/mpp_recorder/*.[ch] recorder/ext/mpp_recorder/extconf.rb formats/*.[ch])

recorder: $(EXT)/mpp_recorder.so
$(EXT)/mpp_recorder.so: $(RECORDER_SRC)
	@mkdir -p $(EXT)
	cd $(EXT) && $(RUBY) $(CURDIR)/recorder/ext/mpp_recorder/extconf.rb && $(MAKE) --no-print-directory

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all recorder tools unit clean
.SECONDARY:
