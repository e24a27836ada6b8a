# grs: a C library and commands; see CONTRIBUTING.md. `make help` lists the targets.
#
# Overridable: CC CXX CFLAGS CXXFLAGS LDFLAGS BUILD PREFIX DESTDIR COMMIT DIRTY FUZZ_SECONDS, and SKIP (patterns of sources to
# leave out while they do not compile, e.g. SKIP='runtime/%').

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),g++)
endif
BUILD    ?= build
CFLAGS   ?= -O2 -g
CXXFLAGS ?= -O2 -g
PREFIX   ?= /usr/local
FUZZ_SECONDS ?= 20

VERSION := $(shell sed -n 's/^\#define GRS_VERSION_[MP][A-Z]* *//p' include/grs.h | paste -sd.)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
COMMIT ?= $(shell git --no-optional-locks rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DIRTY  ?= $(shell git --no-optional-locks status --porcelain 2>/dev/null | grep -q . && echo 1 || echo 0)

WARN      := -Wall -Wextra -Werror
INCLUDES  := -I. -Iinclude -I$(BUILD)
COMPILE.c   = $(CC) -std=c11 -D_GNU_SOURCE $(WARN) -fPIC -fvisibility=hidden -MMD -MP $(INCLUDES) $(CFLAGS)
COMPILE.cxx = $(CXX) -std=c++17 -D_GNU_SOURCE $(WARN) -fPIC -fvisibility=hidden -MMD -MP $(INCLUDES) $(CXXFLAGS)
# The executables carry these libraries inside, so that they run on machines that lack them.
STATIC_LIBS := -Wl,-Bstatic -lyaml -ljansson -lxxhash -lnettle -Wl,-Bdynamic -ldl -lpthread -lm
SHARED_LIBS := -lyaml -ljansson -lxxhash -lnettle -ldl -lpthread -lm

sources = $(filter-out $(SKIP),$(sort $(wildcard $(1))))
objects = $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(1))))

TEMPLATES    := $(wildcard templates/*.h templates/*.cuh)
LIB_OBJ      := $(call objects,$(call sources,common/*.c generator/*.c cache/*.c runtime/*.c)) $(BUILD)/templates/embed.o
EMU_SRC      := $(call sources,emulator/*.c emulator/*.cc)
EMU_LIB      := $(if $(EMU_SRC),$(BUILD)/libemu.a)
GRSGEN_OBJ   := $(call objects,$(call sources,tools/grsgen*.c))
GRSRUN_OBJ   := $(call objects,$(call sources,tools/grsrun*.c))
PROGRAMS     := $(if $(GRSGEN_OBJ),$(BUILD)/grsgen) $(if $(GRSRUN_OBJ),$(BUILD)/grsrun)
TEST_BIN     := $(addprefix $(BUILD)/,$(basename $(call sources,tests/test_*.c tests/test_*.cc)))
TEST_SCRIPTS := $(wildcard tests/test_*.sh tests/test_*.py)
GPU_BIN      := $(addprefix $(BUILD)/,$(basename $(call sources,tests/gpu/test_*.c)))
GPU_HELPERS  := $(filter-out $(GPU_BIN),$(addprefix $(BUILD)/,$(basename $(call sources,tests/gpu/*.c))))
GPU_SCRIPTS  := $(wildcard tests/gpu/test_*.sh)
EXAMPLES     := $(addprefix $(BUILD)/,$(basename $(wildcard examples/*.c)))
BENCH_BIN    := $(addprefix $(BUILD)/,$(basename $(call sources,bench/*.c)))
FUZZ_BIN     := $(addprefix $(BUILD)/,$(basename $(call sources,tests/fuzz_*.c)))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help deps all docs demo check check-gpu check-model bench bench-jit asan ubsan tsan fuzz format install uninstall clean FORCE

all: $(BUILD)/libgrs.a $(BUILD)/libgrs.so $(PROGRAMS) ## build the library and the commands into build/

help: ## print this list
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

deps: ## install the packages of deps.txt that are missing
	@tools/install_deps.sh

demo: ## build, check a config, emit, compile into the cache, run and verify
	@tools/install_deps.sh build run
	@echo 'building …' && $(MAKE) -s --no-print-directory all
	@BUILD=$(BUILD) tools/demo.sh

check: ## run every test that needs no GPU
	@tools/install_deps.sh build check run
	@echo 'building …' && $(MAKE) -s --no-print-directory check-built
check-built: all $(TEST_BIN) $(BENCH_BIN)
	@BUILD=$(BUILD) tests/run.sh $(TEST_BIN) $(TEST_SCRIPTS)

check-gpu: all $(GPU_BIN) $(EXAMPLES) ## run the tests that need a GPU; fails when there is none
	@BUILD=$(BUILD) tests/run.sh --no-skip $(GPU_BIN) $(GPU_SCRIPTS)

check-model: ## explore the protocol models exhaustively
	@BUILD=$(BUILD) tests/run.sh $(wildcard tests/model/test_*.sh)

bench: all ## measure against cuBLAS and NCCL on this machine's GPUs
	@BUILD=$(BUILD) bench/run.sh

bench-jit: all $(BUILD)/bench/bench_jit ## measure cold, disk and memory look-ups of a kernel (JSON=1: as JSON)
	@BUILD=$(BUILD) bench/jit.sh

asan: ## run the tests under AddressSanitizer
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address" \
	    CXXFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address" sanitized
ubsan: ## run the tests under UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/ubsan CFLAGS="-O1 -g -fsanitize=undefined -fno-sanitize-recover=all" \
	    CXXFLAGS="-O1 -g -fsanitize=undefined -fno-sanitize-recover=all" sanitized
tsan: ## run the tests under ThreadSanitizer
	@TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp $(MAKE) --no-print-directory BUILD=$(BUILD)/tsan \
	    CFLAGS="-O1 -g -fsanitize=thread" CXXFLAGS="-O1 -g -fsanitize=thread" sanitized
sanitized: all $(TEST_BIN)
	@BUILD=$(BUILD) tests/run.sh $(TEST_BIN)

fuzz: ## run the libFuzzer programs for FUZZ_SECONDS each
	@tools/install_deps.sh build fuzz
	@$(MAKE) --no-print-directory CC=clang BUILD=$(BUILD)/fuzz CFLAGS="-O1 -g -fsanitize=fuzzer-no-link,address,undefined" fuzz-built
fuzz-built: $(FUZZ_BIN)
	@BUILD=$(BUILD) tests/run_fuzz.sh $(FUZZ_SECONDS) $(FUZZ_BIN)

docs: all ## write the generated documents anew
	@$(BUILD)/grsgen --schema=markdown > $(BUILD)/config.md && cp $(BUILD)/config.md docs/
	@$(BUILD)/grsgen --schema > $(BUILD)/config.schema.json && cp $(BUILD)/config.schema.json docs/
	@for c in grsgen grsrun; do tools/man_options.sh $(BUILD)/$$c man/$$c.1 > $(BUILD)/$$c.1 && cp $(BUILD)/$$c.1 man/; done

format: ## rewrite the sources with clang-format
	@tools/format.sh

install: all ## install below $(DESTDIR)$(PREFIX)
	@BUILD=$(BUILD) PREFIX=$(PREFIX) VERSION=$(VERSION) SOVERSION=$(SOVERSION) tools/install.sh install
uninstall: ## remove what `make install` put there
	@BUILD=$(BUILD) PREFIX=$(PREFIX) VERSION=$(VERSION) SOVERSION=$(SOVERSION) tools/install.sh uninstall

clean: ## remove build/
	rm -rf $(BUILD)

# ---------------------------------------------------------------- generated sources: commit stamp, list of templates

# Both are rewritten only when their text changes, so that nothing is rebuilt without need.
$(BUILD)/stamp.h: FORCE
	@mkdir -p $(@D)
	@printf '#define GRS_COMMIT "%s"\n#define GRS_DIRTY %s\n' '$(COMMIT)' '$(DIRTY)' > $@.$$PPID
	@cmp -s $@.$$PPID $@ || cp $@.$$PPID $@; rm -f $@.$$PPID

$(BUILD)/templates.list: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(notdir $(TEMPLATES)) | awk '{ s = $$1; gsub(/[^a-z0-9]/, "_", s); \
	    printf "TEMPLATE(%s, \"templates/%s\", \"grs/%s\")\n", s, $$1, $$1 }' > $@.$$PPID
	@cmp -s $@.$$PPID $@ || cp $@.$$PPID $@; rm -f $@.$$PPID

# ---------------------------------------------------------------- compiling and linking

$(BUILD)/%.o: %.c | $(BUILD)/stamp.h $(BUILD)/templates.list
	@mkdir -p $(@D)
	$(COMPILE.c) -c -o $@ $<
$(BUILD)/%.o: %.cc | $(BUILD)/stamp.h $(BUILD)/templates.list
	@mkdir -p $(@D)
	$(COMPILE.cxx) -c -o $@ $<
$(BUILD)/templates/embed.o: templates/embed.S $(BUILD)/templates.list $(TEMPLATES)
	@mkdir -p $(@D)
	$(CC) -I. -I$(BUILD) -c -o $@ $<

# Templates that are arithmetic alone, compiled for the host.
$(BUILD)/tests/test_schedule.o: INCLUDES += -Itests/device

$(BUILD)/tools/grsrun_kernels.o: tools/grsrun_kernels.cu tools/grsrun_values.h

$(BUILD)/emulator/embedded.o: emulator/device.h $(wildcard emulator/*.cuh)

$(BUILD)/libgrs.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libemu.a: $(call objects,$(EMU_SRC))
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libgrs.so.$(VERSION): $(LIB_OBJ) runtime/libgrs.map
	$(CC) -shared $(CFLAGS) $(LDFLAGS) -Wl,-soname,libgrs.so.$(SOVERSION) -Wl,--version-script=runtime/libgrs.map \
	    -o $@ $(LIB_OBJ) $(SHARED_LIBS)
$(BUILD)/libgrs.so: $(BUILD)/libgrs.so.$(VERSION)
	@ln -sf $(<F) $(BUILD)/libgrs.so.$(SOVERSION) && ln -sf $(<F) $@

# The emulator is C++: what contains it is linked by the C++ compiler, with its run-time library inside.
$(BUILD)/grsgen: $(GRSGEN_OBJ) $(BUILD)/libgrs.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
$(BUILD)/grsrun: $(GRSRUN_OBJ) $(EMU_LIB) $(BUILD)/libgrs.a
	$(if $(EMU_LIB),$(CXX) -static-libstdc++ -static-libgcc $(CXXFLAGS),$(CC) $(CFLAGS)) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
$(BUILD)/tests/test_emu%: $(BUILD)/tests/test_emu%.o $(BUILD)/tools/grsrun_trial.o $(BUILD)/tools/grsrun_values.o \
    $(EMU_LIB) $(BUILD)/libgrs.a
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(STATIC_LIBS)
$(BUILD)/tests/test_grsrun%: $(BUILD)/tests/test_grsrun%.o $(filter-out %/grsrun.o,$(GRSRUN_OBJ)) $(EMU_LIB) $(BUILD)/libgrs.a
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(STATIC_LIBS)
$(BUILD)/tests/fuzz_%: $(BUILD)/tests/fuzz_%.o $(BUILD)/libgrs.a
	$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libgrs.a
	$(if $(wildcard tests/$*.cc),$(CXX) $(CXXFLAGS),$(CC) $(CFLAGS)) $(LDFLAGS) -o $@ $^ -lcmocka $(STATIC_LIBS)
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libgrs.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
# No cmocka: these run on machines that have a GPU and nothing installed.
$(BUILD)/tests/gpu/test_endurance: $(BUILD)/tests/gpu/test_endurance.o $(filter-out %/grsrun.o,$(GRSRUN_OBJ)) $(EMU_LIB) $(BUILD)/libgrs.a
	$(CXX) -static-libstdc++ -static-libgcc $(CXXFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
$(BUILD)/tests/gpu/%: $(BUILD)/tests/gpu/%.o $(BUILD)/libgrs.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)
# With a CUDA runtime of their own, over the driver: the machine with the GPU need not have one.
$(BUILD)/examples/%: examples/%.c tests/shim_cudart.c $(BUILD)/libgrs.a
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE $(WARN) $(INCLUDES) -Itests/standin $(CFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)

# Libraries that stand in for NVIDIA's in tests: tests/shim_cuda.c becomes $(BUILD)/tests/shim/libcuda.so.
SHIMS := $(patsubst tests/shim_%.c,$(BUILD)/tests/shim/lib%.so,$(wildcard tests/shim_*.c))
$(BUILD)/tests/shim/lib%.so: tests/shim_%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -fPIC -shared -MMD -MP $(INCLUDES) $(CFLAGS) -o $@ $<
$(TEST_BIN): | $(SHIMS)

-include $(shell find $(BUILD) -name '*.d' -not -path '$(BUILD)/*san/*' 2>/dev/null)
