// What the tests of single instructions share: kernels of one file, compiled for emulated threads; a machine with one launch and
// memory for it; runs under every schedule.
#ifndef GRS_TESTS_EMU_MACHINE_H
#define GRS_TESTS_EMU_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "emulator/machine.h"
#include "emulator/tensor_map.h"

extern "C" {
#include <cmocka.h> // after the emulator: it makes a macro of `fail`

#include "tests/emu_fixture.h"
}

namespace {

constexpr int schedules = 4;

struct emu_kernel *kernels; // that `setting::name` is one of

std::string read_file(const char *path) {
    std::string text;
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be read; run the tests from the repository's root", path);
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), file)) > 0;)
        text.append(buffer, n);
    fclose(file);
    return text;
}

// Names of all kernels: the word after GRS_KERNEL(…).
std::string names_in(const std::string &text) {
    std::string names;
    for (size_t at = 0; (at = text.find("\nGRS_KERNEL(", at)) != std::string::npos;) {
        size_t begin = text.find_first_not_of(" \n", text.find(')', at) + 1), end = text.find('(', begin);
        names += (names.empty() ? "" : " ") + text.substr(begin, end - begin);
        at = end;
    }
    return names;
}

// The group fixture of a test program: compiles its kernels.
int build(const char *path) {
    std::string text = read_file(path);
    static grs_error err;
    if (emu_kernel_build(text.c_str(), names_in(text).c_str(), nullptr, emu_kernel_directory(), &kernels, &err) !=
        GRS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    return 0;
}

int release(void **) {
    emu_kernel_free(kernels);
    return 0;
}

// A machine with one grid and one launch, and memory for it.
struct setting {
    const char *name;
    uint32_t threads = 32, ctas = 1, cluster = 1, registers = 128, ctas_per_sm = 1;
    int m = 0, wave = 0; // a kernel's parameters
    uint32_t outbox_bytes = 64 << 10, shared_bytes = 96 << 10;
    int ranks = 1; // > 1: CTA i belongs to rank i
    int64_t a_columns = 100, a_rows = 50, d_columns = 100, d_rows = 50;
    uint64_t seed = 1;
};

struct outcome {
    emu_report report;
    std::vector<uint32_t> words; // groups
    std::vector<char> outbox, slots;
    std::vector<uint16_t> a, d;
};

uint16_t element(uint64_t i) {
    return static_cast<uint16_t>(i * 40503u >> 3);
}

void run_as(const setting &s, emu_schedule schedule, const std::vector<char> &outbox_content, outcome &out) {
    emu::machine m(schedule, s.seed);
    m.deadline_ns = 1000000000;
    emu::region *groups = m.memory.add(0, emu::purpose::groups, "words", 256 << 10);
    emu::region *outbox = m.memory.add(0, emu::purpose::outbox, "outbox", s.outbox_bytes);
    emu::region *slots = m.memory.add(0, emu::purpose::slots, "slots", 4096);
    emu::region *a = m.memory.add(0, emu::purpose::operand, "A", static_cast<size_t>(s.a_columns + 4) * s.a_rows * 2);
    emu::region *d = m.memory.add(0, emu::purpose::output, "D", static_cast<size_t>(s.d_columns + 4) * s.d_rows * 2);
    for (size_t i = 0; i < a->bytes / 2; ++i)
        reinterpret_cast<uint16_t *>(a->base)[i] = element(i);
    memset(d->base, 0x55, d->bytes);
    std::copy(outbox_content.begin(), outbox_content.end(), reinterpret_cast<char *>(outbox->base));
    for (size_t i = 0; i < outbox_content.size(); i += emu::granule_bytes)
        outbox->marks.at(i)->write = emu::epoch::host();

    m.grids.emplace_back(new emu::grid());
    emu::grid &g = *m.grids.back();
    g.index = 0;
    g.launches.resize(1);
    emu::launch &l = g.launches[0];
    l.entry = emu_kernel_entry(kernels, s.name);
    assert_non_null(reinterpret_cast<void *>(l.entry));
    memset(&l.args, 0, sizeof(l.args));
    l.args.m = s.m;
    l.args.wave = s.wave;
    l.args.grid = static_cast<int32_t>(s.ranks > 1 ? 1 : s.ctas);
    l.args.ranks = s.ranks;
    for (int rank = 0; rank < s.ranks; ++rank)
        l.args.rank[rank].rank = rank;
    grs_rank_args &r = l.args.rank[0];
    r.groups = reinterpret_cast<uint32_t *>(groups->base);
    r.outbox = outbox->base;
    r.slots = slots->base;
    grs_error err;
    assert_int_equal(emu::tensor_map_encode(a->base, static_cast<uint64_t>(s.a_columns),
                                            static_cast<uint64_t>(s.a_rows), static_cast<uint64_t>(s.a_columns + 4), 64,
                                            64, 128, &r.a, &err),
                     GRS_OK);
    assert_int_equal(emu::tensor_map_encode(d->base, static_cast<uint64_t>(s.d_columns),
                                            static_cast<uint64_t>(s.d_rows), static_cast<uint64_t>(s.d_columns + 4), 64,
                                            64, 128, &r.d, &err),
                     GRS_OK);
    l.ctas = s.ctas;
    l.threads = s.threads;
    l.shared_bytes = s.shared_bytes;
    l.registers = s.registers;
    l.cluster = s.cluster;
    l.ctas_per_sm = s.ctas_per_sm;
    l.number = 0;
    assert_true(m.prepare());
    m.run();
    out.report = m.report;
    auto words = reinterpret_cast<const uint32_t *>(groups->base);
    out.words.assign(words, words + groups->bytes / 4);
    out.outbox.assign(outbox->base, outbox->base + outbox->bytes);
    out.slots.assign(slots->base, slots->base + slots->bytes);
    auto a_words = reinterpret_cast<const uint16_t *>(a->base), d_words = reinterpret_cast<const uint16_t *>(d->base);
    out.a.assign(a_words, a_words + a->bytes / 2);
    out.d.assign(d_words, d_words + d->bytes / 2);
}

// Runs under every schedule, three seeds each; all must end with this verdict. The outcome is the last one's.
outcome expect(setting s, enum emu_verdict verdict, const std::vector<char> &outbox = {}) {
    outcome out;
    for (int schedule = 0; schedule < schedules; ++schedule)
        for (s.seed = 1; s.seed <= 3; ++s.seed) {
            run_as(s, static_cast<emu_schedule>(schedule), outbox, out);
            if (out.report.verdict != verdict)
                fail_msg("%s, schedule %d, seed %d: %s instead of %s\n%s", s.name, schedule, static_cast<int>(s.seed),
                         emu_verdict_name(out.report.verdict), emu_verdict_name(verdict), out.report.text);
        }
    return out;
}

setting kernel(const char *name, uint32_t threads = 32, uint32_t ctas = 1) {
    setting s;
    s.name = name;
    s.threads = threads;
    s.ctas = ctas;
    return s;
}

inline std::vector<char> bytes(size_t count) {
    std::vector<char> out(count);
    for (size_t i = 0; i < count; ++i)
        out[i] = static_cast<char>(i * 7 + i / 256);
    return out;
}

} // namespace

#endif
