// The emulator, instruction by instruction: small kernels (tests/emu_kernels.cuh) are compiled for emulated threads and run under
// every schedule; what they leave in memory, or what the emulator says of them, is compared with what the instruction's
// definition asks for.
#include "tests/emu_machine.h"

namespace {

constexpr uint32_t box_bytes = 64 * 128; // 64 rows of 64 columns

int build_all(void **) {
    return build("tests/emu_kernels.cuh");
}

// ---------------------------------------------------------------- threads

void threads_know_their_place(void **) {
    outcome o = expect(kernel("where_am_i", 64, 3), EMU_PASSED);
    for (uint32_t block = 0; block < 3; ++block)
        for (uint32_t t = 0; t < 64; ++t) {
            const uint32_t *w = &o.words[(block * 64 + t) * 4];
            assert_int_equal(w[0], block);
            assert_int_equal(w[1], t / 32);
            assert_int_equal(w[2], t % 32);
            assert_int_equal(w[3], t / 32 * 32 + 7);
        }
}

void barriers_wait_for_all(void **) {
    outcome o = expect(kernel("barriers_meet", 64), EMU_PASSED);
    for (uint32_t t = 0; t < 64; ++t)
        assert_int_equal(o.words[t], 63 - t);
    o = expect(kernel("barrier_missed", 64), EMU_DEADLOCK);
    assert_non_null(strstr(o.report.text, "waits at barrier 0 (63 of 64 threads are there)"));
    expect(kernel("barrier_miscounted", 64), EMU_DIVERGED);
}

void warps_act_together(void **) {
    expect(kernel("warp_diverges"), EMU_DIVERGED);
}

void registers_are_counted(void **) {
    outcome o = expect(kernel("registers_move", 256), EMU_PASSED);
    assert_int_equal(o.words[255], 1);
    o = expect(kernel("registers_too_many", 256), EMU_DEADLOCK);
    assert_non_null(strstr(o.report.text, "setmaxnreg.inc 224"));
    expect(kernel("registers_odd", 128), EMU_REGISTERS);
    setting s = kernel("registers_move", 256);
    s.registers = 264;
    expect(s, EMU_REGISTERS);
}

// ---------------------------------------------------------------- mbarriers

void mbarriers_count(void **) {
    outcome o = expect(kernel("phases", 64), EMU_PASSED);
    for (uint32_t t = 0; t < 64; ++t)
        assert_int_equal(o.words[t], 5);
    expect(kernel("too_many_arrivals"), EMU_BARRIER_COUNT, bytes(64));
    o = expect(kernel("bytes_not_announced"), EMU_DEADLOCK, bytes(64));
    assert_non_null(strstr(o.report.text, "0 of 1 arrivals and -16 bytes missing"));
}

void mbarriers_are_made_first(void **) {
    expect(kernel("no_barrier"), EMU_BAD_OPERAND);
    expect(kernel("barrier_unknown", 64), EMU_TOO_EARLY);
    expect(kernel("barrier_not_fenced"), EMU_UNFENCED, bytes(64));
    expect(kernel("barrier_trampled"), EMU_OVERWRITTEN);
}

void phases_do_not_pass_waiters(void **) {
    expect(kernel("waiter_overtaken", 64), EMU_PHASE_SKIPPED);
}

// ---------------------------------------------------------------- copies

// Where the 16-byte unit u of row r of a box lies.
uint32_t unit_at(uint32_t r, uint32_t u) {
    return r * 128 + ((u ^ r) % 8) * 16;
}

void boxes_are_filled_and_swizzled(void **) {
    const int places[][2] = {{0, 0}, {64, 0}, {0, 32}, {72, 40}, {-8, -3}, {104, 0}, {0, 50}};
    for (const int(&place)[2] : places) {
        setting s = kernel("box_in");
        s.m = place[0];
        s.wave = place[1];
        outcome o = expect(s, EMU_PASSED);
        for (int r = 0; r < 64; ++r)
            for (int c = 0; c < 64; ++c) {
                int x = place[0] + c, y = place[1] + r;
                bool inside = x >= 0 && x < s.a_columns && y >= 0 && y < s.a_rows;
                uint16_t got, want = inside ? element(static_cast<uint64_t>(y * (s.a_columns + 4) + x)) : 0;
                memcpy(&got,
                       &o.outbox[unit_at(static_cast<uint32_t>(r), static_cast<uint32_t>(c) / 8) +
                                 static_cast<uint32_t>(c) % 8 * 2],
                       2);
                assert_int_equal(got, want);
            }
    }
}

void boxes_are_clipped(void **) {
    std::vector<char> image = bytes(box_bytes);
    const int places[][2] = {{0, 0}, {64, 16}, {40, 40}};
    for (const int(&place)[2] : places) {
        setting s = kernel("box_out");
        s.m = place[0];
        s.wave = place[1];
        outcome o = expect(s, EMU_PASSED, image);
        for (int y = 0; y < s.d_rows; ++y)
            for (int x = 0; x < s.d_columns + 4; ++x) {
                int r = y - place[1], c = x - place[0];
                bool inside = x < s.d_columns && r >= 0 && r < 64 && c >= 0 && c < 64;
                uint16_t want = 0x5555;
                if (inside)
                    memcpy(&want,
                           &image[unit_at(static_cast<uint32_t>(r), static_cast<uint32_t>(c) / 8) +
                                  static_cast<uint32_t>(c) % 8 * 2],
                           2);
                assert_int_equal(o.d[static_cast<size_t>(y * (s.d_columns + 4) + x)], want);
            }
    }
}

void loads_are_waited_for(void **) {
    expect(kernel("not_waited_for"), EMU_TOO_EARLY, bytes(64));
    outcome o = expect(kernel("poison_seen"), EMU_PASSED);
    for (uint32_t lane = 0; lane < 32; ++lane)
        assert_int_equal(o.words[lane], 0xffffffffu);
}

void proxies_need_fences(void **) {
    outcome o = expect(kernel("fenced_by_all"), EMU_PASSED);
    assert_int_equal(o.outbox[1], 0x3f);
    expect(kernel("fenced_by_one"), EMU_UNFENCED);
    expect(kernel("fenced_by_none"), EMU_UNFENCED);
    expect(kernel("not_synchronised"), EMU_TOO_EARLY);
}

void buffers_are_read_before_reuse(void **) {
    outcome o = expect(kernel("buffer_reused_in_time"), EMU_PASSED);
    assert_int_equal(o.outbox[1], 0x3f);
    expect(kernel("buffer_reused_early"), EMU_OVERWRITTEN);
    setting s = kernel("groups_in_order");
    expect(s, EMU_PASSED);
    s.m = 1;
    expect(s, EMU_OVERWRITTEN);
}

void stores_land_before_others_read(void **) {
    outcome o = expect(kernel("memory_ok", 64), EMU_PASSED);
    assert_int_equal(o.slots[1], 0x3f);
    expect(kernel("memory_not_landed", 64), EMU_TOO_EARLY);
    expect(kernel("memory_not_fenced", 64), EMU_UNFENCED);
}

void groups_are_finished(void **) {
    expect(kernel("never_committed"), EMU_GROUP_MISUSE);
    outcome o; // where copies finish late, the CTA ends before them
    run_as(kernel("ends_while_loaded"), EMU_SCHEDULE_LAZY, bytes(64), o);
    assert_int_equal(o.report.verdict, EMU_GROUP_MISUSE);
    run_as(kernel("ends_while_read"), EMU_SCHEDULE_LAZY, {}, o);
    assert_int_equal(o.report.verdict, EMU_GROUP_MISUSE);
}

void copies_stay_inside(void **) {
    setting s = kernel("beyond_memory");
    s.outbox_bytes = 4096;
    s.m = 4096 - 48;
    expect(s, EMU_OUT_OF_BOUNDS, bytes(4096));
    s.m = 4096 + 128;
    expect(s, EMU_OUT_OF_BOUNDS, bytes(4096));
    s.m = 8;
    expect(s, EMU_BAD_OPERAND, bytes(4096));
    expect(kernel("odd_copy"), EMU_BAD_OPERAND, bytes(64));
    expect(kernel("stores_operand"), EMU_OUT_OF_BOUNDS);
}

// ---------------------------------------------------------------- words

void words_are_read_modified_written(void **) {
    outcome o = expect(kernel("read_modify_write"), EMU_PASSED);
    const uint64_t *v = reinterpret_cast<const uint64_t *>(&o.words[8]);
    assert_int_equal(o.words[0], 2);
    assert_int_equal(o.words[1], 9);
    assert_int_equal(o.words[2], 40);
    assert_int_equal(o.words[3], 42);
    assert_int_equal(v[0], 7);
    assert_true(v[1] == uint64_t{1} << 40);
    assert_int_equal(v[2], 3);
    assert_true(v[3] == uint64_t{1} << 40);
}

void time_goes_by_the_scheduler(void **) {
    outcome o = expect(kernel("time_passes"), EMU_PASSED);
    assert_int_equal(o.words[0], 1);
}

void signals_carry_what_was_done(void **) {
    expect(kernel("signal_sys", 32, 2), EMU_PASSED);
    expect(kernel("signal_gpu", 32, 2), EMU_PASSED); // both on one rank
    expect(kernel("signal_relaxed", 32, 2), EMU_TOO_EARLY);
    setting s = kernel("signal_sys", 32, 2);
    s.ranks = 2;
    expect(s, EMU_PASSED);
    s.name = "signal_gpu"; // the scope does not reach the other rank
    expect(s, EMU_TOO_EARLY);
}

// ---------------------------------------------------------------- matrices

void fragments_have_their_layout(void **) {
    outcome o = expect(kernel("matrices"), EMU_PASSED);
    for (uint32_t row = 0; row < 32; ++row) // row of all four matrices: row % 8 of matrix row / 8
        for (uint32_t pair = 0; pair < 4; ++pair) {
            uint32_t lane = row % 8 * 4 + pair, matrix = row / 8;
            assert_int_equal(o.words[row * 4 + pair], matrix * 32 + lane);
            assert_int_equal(o.words[128 + lane * 4 + matrix], (matrix ^ 1) * 32 + lane);
        }
}

// A and B as they lie in shared memory, 64 + n rows of 64 columns; value of row r, column c is small and exact.
float operand(uint32_t r, uint32_t c) {
    return static_cast<float>(static_cast<int>((r * 5 + c * 3) % 7) - 3);
}

std::vector<char> operands(uint32_t n) {
    std::vector<char> image((64 + n) * 128);
    for (uint32_t r = 0; r < 64 + n; ++r)
        for (uint32_t c = 0; c < 64; ++c) {
            uint32_t bits;
            float value = operand(r, c);
            memcpy(&bits, &value, 4);
            uint16_t word = static_cast<uint16_t>(bits >> 16);
            uint32_t in_part = r < 64 ? r : r - 64;
            memcpy(&image[(r < 64 ? 0 : 64 * 128) + unit_at(in_part, c / 8) + c % 8 * 2], &word, 2);
        }
    return image;
}

// Registers that differ from the product. Thread t, register i: row 16*(t/32) + t%32/4 + 8*(i/2%2), column 8*(i/4) + 2*(t%4) + i%2.
int wrong_registers(const outcome &o, uint32_t n) {
    int wrong = 0;
    for (uint32_t t = 0; t < 128; ++t)
        for (uint32_t i = 0; i < n / 2; ++i) {
            uint32_t row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
            float want = 0, got;
            for (uint32_t k = 0; k < 64; ++k)
                want += operand(row, k) * operand(64 + column, k);
            memcpy(&got, &o.words[t * (n / 2) + i], 4);
            wrong += !(got == want);
        }
    return wrong;
}

void products_are_right(void **) {
    assert_int_equal(wrong_registers(expect(kernel("product_64", 128), EMU_PASSED, operands(64)), 64), 0);
    assert_int_equal(wrong_registers(expect(kernel("product_256", 128), EMU_PASSED, operands(256)), 256), 0);
}

void products_are_waited_for(void **) {
    expect(kernel("product_not_fenced", 128), EMU_UNFENCED, operands(64));
    assert_int_equal(wrong_registers(expect(kernel("product_early", 128), EMU_PASSED, operands(64)), 64), 64 * 64);
    expect(kernel("product_overwritten", 128), EMU_OVERWRITTEN, operands(64));
    expect(kernel("product_abandoned", 128), EMU_GROUP_MISUSE, operands(64));
}

void descriptors_are_decoded(void **) {
    assert_true(wrong_registers(expect(kernel("product_swizzle", 128), EMU_PASSED, operands(64)), 64) > 1000);
    assert_true(wrong_registers(expect(kernel("product_stride", 128), EMU_PASSED, operands(64)), 64) > 1000);
    expect(kernel("product_reserved", 128), EMU_BAD_OPERAND, operands(64));
}

// ---------------------------------------------------------------- clusters

void clusters_share_loads(void **) {
    setting s = kernel("multicast", 32, 4);
    s.cluster = 2;
    outcome o = expect(s, EMU_PASSED);
    for (uint32_t cta = 0; cta < 4; ++cta)
        for (uint32_t r = 0; r < 64; ++r) {
            uint16_t got, want = r < 50 ? element(r * 104) : 0;
            memcpy(&got, &o.outbox[cta * box_bytes + unit_at(r, 0)], 2);
            assert_int_equal(got, want);
        }
    s.name = "remote_too_late";
    expect(s, EMU_OUT_OF_BOUNDS);
}

// ---------------------------------------------------------------- parts

void a_seed_replays(void **) {
    outcome first, again, other;
    setting s = kernel("phases", 64);
    for (int schedule = 0; schedule < schedules; ++schedule) {
        run_as(s, static_cast<emu_schedule>(schedule), {}, first);
        run_as(s, static_cast<emu_schedule>(schedule), {}, again);
        assert_true(first.report.steps == again.report.steps && first.report.switches == again.report.switches);
    }
    s.seed = 2;
    run_as(s, EMU_SCHEDULE_RANDOM, {}, other);
    s.seed = 3;
    run_as(s, EMU_SCHEDULE_RANDOM, {}, first);
    assert_true(first.report.switches != other.report.switches);
}

void clocks_join(void **) {
    emu::clock_space(3, 20);
    {
        emu::vector_clock a, b;
        a.raise(0, 3, 5);
        b.raise(0, 3, 4);
        b.raise(2, 19, 7);
        emu::vector_clock c = a;
        c.join(b);
        assert_int_equal(c.get(0, 3), 5);
        assert_int_equal(c.get(2, 19), 7);
        assert_int_equal(c.get(1, 1), 0);
        assert_int_equal(a.get(2, 19), 0);
        emu::vector_clock d = c;
        d.join(a); // nothing new: the same storage
        assert_true(d.same_as(c));
        d.raise(1, 1, 1); // does not reach the one it was copied from
        assert_int_equal(c.get(1, 1), 0);
        assert_true(c.covers(emu::epoch(0, 3, 5, false)));
        assert_false(c.covers(emu::epoch(0, 3, 6, false)));
        emu::vector_clock e;
        e.gather(a);
        e.gather(b);
        assert_int_equal(e.get(0, 3), 5);
        assert_int_equal(e.get(2, 19), 7);
        assert_int_equal(b.get(0, 3), 4);
    }
    emu::clock_forget();
}

void tensor_maps_are_checked(void **) {
    alignas(64) static char memory[4096];
    grs_tensor_map map;
    grs_error err;
    const struct {
        int offset;
        uint64_t columns, rows, stride;
        uint32_t box_columns, box_rows;
        const char *complaint; // nullptr: none
    } cases[] = {
        {0, 64, 10, 64, 64, 64, nullptr},          {8, 64, 10, 64, 64, 64, "16-byte aligned"},
        {0, 64, 10, 60, 64, 64, "stride"},         {0, 64, 10, 56, 64, 64, "stride"},
        {0, 0, 10, 64, 64, 64, "columns"},         {0, 64, 0, 64, 64, 64, "columns"},
        {0, 64, 10, 64, 64, 257, "box"},           {0, 64, 10, 64, 72, 64, "swizzle"},
        {0, 64, 10, 64, 4, 64, "multiples of 16"},
    };
    for (const auto &c : cases) {
        grs_status status = emu::tensor_map_encode(memory + c.offset, c.columns, c.rows, c.stride, c.box_columns,
                                                   c.box_rows, 128, &map, &err);
        assert_int_equal(status, c.complaint ? GRS_ERR_ARGUMENT : GRS_OK);
        if (c.complaint)
            assert_non_null(strstr(err.text, c.complaint));
    }
    memset(&map, 0, sizeof(map));
    assert_null(emu::tensor_map_decode(&map));
}

void memory_knows_its_borders(void **) {
    emu::global_memory memory;
    emu::region *first = memory.add(0, emu::purpose::scratch, "first", 100);
    emu::region *second = memory.add(1, emu::purpose::scratch, "second", 300);
    assert_ptr_equal(memory.find(first->base), first);
    assert_ptr_equal(memory.find(second->base + 299), second);
    assert_null(memory.find(second->base + 300));
    assert_null(memory.find(first->base - 1));
    assert_false(first->contains(first->base + 90, 11));
    assert_null(memory.damaged());
    first->base[100] = 1;
    assert_ptr_equal(memory.damaged(), first);
}

void compilers_report_errors(void **) {
    struct emu_kernel *kernel;
    grs_error err;
    assert_int_equal(emu_kernel_build("#include \"grs/ptx.cuh\"\nint x = ;\n", "none", nullptr, nullptr, &kernel, &err),
                     GRS_ERR_COMPILER);
    assert_null(kernel);
    assert_non_null(strstr(err.text, "kernel.cu:2"));
    const char *path = getenv("PATH"), *cxx = getenv("CXX");
    std::string saved = path ? path : "", compiler = cxx ? cxx : "";
    setenv("PATH", "/nowhere", 1);
    unsetenv("CXX");
    grs_status status = emu_kernel_build("", "none", nullptr, nullptr, &kernel, &err);
    setenv("PATH", saved.c_str(), 1);
    if (cxx)
        setenv("CXX", compiler.c_str(), 1);
    assert_int_equal(status, GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "set CXX"));
}

} // namespace

int main() {
    EMU_RETURN_IF_UNWATCHABLE();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_know_their_place),
        cmocka_unit_test(barriers_wait_for_all),
        cmocka_unit_test(warps_act_together),
        cmocka_unit_test(registers_are_counted),
        cmocka_unit_test(mbarriers_count),
        cmocka_unit_test(mbarriers_are_made_first),
        cmocka_unit_test(phases_do_not_pass_waiters),
        cmocka_unit_test(boxes_are_filled_and_swizzled),
        cmocka_unit_test(boxes_are_clipped),
        cmocka_unit_test(loads_are_waited_for),
        cmocka_unit_test(proxies_need_fences),
        cmocka_unit_test(buffers_are_read_before_reuse),
        cmocka_unit_test(stores_land_before_others_read),
        cmocka_unit_test(groups_are_finished),
        cmocka_unit_test(copies_stay_inside),
        cmocka_unit_test(words_are_read_modified_written),
        cmocka_unit_test(time_goes_by_the_scheduler),
        cmocka_unit_test(signals_carry_what_was_done),
        cmocka_unit_test(fragments_have_their_layout),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(products_are_waited_for),
        cmocka_unit_test(descriptors_are_decoded),
        cmocka_unit_test(clusters_share_loads),
        cmocka_unit_test(a_seed_replays),
        cmocka_unit_test(clocks_join),
        cmocka_unit_test(tensor_maps_are_checked),
        cmocka_unit_test(memory_knows_its_borders),
        cmocka_unit_test(compilers_report_errors),
    };
    return cmocka_run_group_tests(tests, build_all, release);
}
