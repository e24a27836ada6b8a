// tcgen05 on the emulator, instruction by instruction: kernels of tests/emu_tcgen05.cuh. Products of every operand layout that the
// descriptors can name are compared with the definition of the layout; the rest is about who may use tensor memory, and when.
#include "tests/emu_machine.h"

namespace {

int build_all(void **) {
    return build("tests/emu_tcgen05.cuh");
}

// ---------------------------------------------------------------- operands by the definition of their layouts

constexpr uint32_t depth = 16;

// An operand of `rows` x 16 in shared memory. PTX ISA, "Canonical layouts", in bytes for 16-bit elements.
struct layout {
    bool by_row;                       // K-major
    uint32_t swizzle;                  // bytes, 0: none
    uint32_t leading, stride, first_k; // offsets in bytes; columns of a K-major span before the operand's
    uint32_t place(uint32_t row, uint32_t k) const {
        uint32_t at;
        if (by_row && swizzle)
            at = row / 8 * stride + row % 8 * swizzle + (first_k + k) * 2;
        else if (by_row)
            at = row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2;
        else if (swizzle)
            at = row * 2 / swizzle * leading + k / 8 * stride + k % 8 * swizzle + row * 2 % swizzle;
        else
            at = row / 8 * stride + k / 8 * leading + k % 8 * 16 + row % 8 * 2;
        uint32_t xor_mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
        return at ^ (at >> 7 & xor_mask) << 4;
    }
    uint32_t bytes(uint32_t rows) const {
        uint32_t last = 0;
        for (uint32_t row = 0; row < rows; ++row)
            for (uint32_t k = 0; k < depth; ++k)
                last = std::max(last, place(row, k));
        return (last + 2 + 1023) / 1024 * 1024;
    }
    uint64_t descriptor(uint32_t offset) const { // `offset` of the operand in the test's data
        uint64_t mode = swizzle == 128 ? 2 : swizzle == 64 ? 4 : swizzle == 32 ? 6 : 0;
        return (offset + first_k * 2) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
               static_cast<uint64_t>(stride >> 4) << 32 | uint64_t{1} << 46 | mode << 61;
    }
};

layout layout_of(bool by_row, uint32_t swizzle) {
    if (by_row)
        return layout{true, swizzle, 8192 + 128, swizzle ? swizzle * 8 + 1024 : 128 + 16, swizzle == 128 ? 32u : 0u};
    if (swizzle)
        return layout{false, swizzle, swizzle * 16 + 1024, swizzle * 8, 0};
    return layout{false, 0, 4096 + 128, 128, 0};
}

struct numbers {
    uint16_t word(uint32_t operand, uint32_t row, uint32_t k, bool is_bf16) const {
        int value = static_cast<int>((operand * 7919 + row * 31 + k * 17 + row * k) % 15) - 7; // exact in both types
        float f = static_cast<float>(value);
        uint32_t bits;
        memcpy(&bits, &f, sizeof(bits));
        if (is_bf16)
            return static_cast<uint16_t>(bits >> 16);
        if (value == 0)
            return 0;
        uint32_t exponent = (bits >> 23 & 255) - 127 + 15;
        return static_cast<uint16_t>(bits >> 31 << 15 | exponent << 10 | (bits >> 13 & 1023));
    }
    int value(uint32_t operand, uint32_t row, uint32_t k) const {
        return static_cast<int>((operand * 7919 + row * 31 + k * 17 + row * k) % 15) - 7;
    }
};

struct product_case {
    uint32_t m, n;
    layout a, b;
    bool a_is_bf16, b_is_bf16, negate_a;
};

// The test's data: 1024 bytes of parameters, A, B.
std::vector<char> image_of(const product_case &p) {
    uint32_t a_at = 1024, b_at = a_at + p.a.bytes(p.m), end = b_at + p.b.bytes(p.n);
    std::vector<char> image(end, static_cast<char>(0x7f)); // large numbers where nobody should read
    numbers of;
    for (uint32_t k = 0; k < depth; ++k) {
        for (uint32_t row = 0; row < p.m; ++row) {
            uint16_t w = of.word(0, row, k, p.a_is_bf16);
            memcpy(&image[a_at + p.a.place(row, k)], &w, sizeof(w));
        }
        for (uint32_t row = 0; row < p.n; ++row) {
            uint16_t w = of.word(1, row, k, p.b_is_bf16);
            memcpy(&image[b_at + p.b.place(row, k)], &w, sizeof(w));
        }
    }
    uint64_t a = p.a.descriptor(a_at), b = p.b.descriptor(b_at);
    uint32_t instruction = 1u << 4 | static_cast<uint32_t>(p.a_is_bf16) << 7 |
                           static_cast<uint32_t>(p.b_is_bf16) << 10 | static_cast<uint32_t>(p.negate_a) << 13 |
                           static_cast<uint32_t>(!p.a.by_row) << 15 | static_cast<uint32_t>(!p.b.by_row) << 16 |
                           p.n / 8 << 17 | p.m / 16 << 24;
    memcpy(&image[0], &a, 8);
    memcpy(&image[8], &b, 8);
    memcpy(&image[16], &instruction, 4);
    memcpy(&image[20], &image[16], 4); // once more, for product_beside_another
    memcpy(&image[24], &image[0], 16);
    return image;
}

setting product_setting(const char *name, const product_case &p, size_t bytes) {
    setting s = kernel(name, 128);
    s.m = static_cast<int>(p.n);
    s.wave = static_cast<int>(bytes);
    s.outbox_bytes = 256 << 10;
    s.shared_bytes = 200 << 10;
    return s;
}

std::string name_of(const product_case &p) {
    char text[128];
    snprintf(text, sizeof(text), "m %u, n %u, A %s-major, swizzle %u, B %s-major, swizzle %u", p.m, p.n,
             p.a.by_row ? "K" : "M", p.a.swizzle, p.b.by_row ? "K" : "N", p.b.swizzle);
    return text;
}

// The first element of D that is wrong, in words; "": none is.
std::string wrong_element(const product_case &p, const outcome &o) {
    numbers of;
    for (uint32_t row = 0; row < p.m; ++row) {
        uint32_t lane = p.m == 64 ? row / 16 * 32 + row % 16 : row;
        for (uint32_t j = 0; j < p.n; ++j) {
            int sum = 0;
            for (uint32_t k = 0; k < depth; ++k)
                sum += of.value(0, row, k) * of.value(1, j, k);
            float want = static_cast<float>(2 * (p.negate_a ? -sum : sum)), got; // the product is added twice
            memcpy(&got, &o.words[lane * p.n + j], sizeof(got));
            if (got != want) {
                char text[128];
                snprintf(text, sizeof(text), "D[%u, %u] is %g, not %g", row, j, static_cast<double>(got),
                         static_cast<double>(want));
                return text;
            }
        }
    }
    return "";
}

void check_product(const product_case &p) {
    std::vector<char> image = image_of(p);
    outcome o;
    setting s = product_setting("product", p, image.size());
    for (s.seed = 1; s.seed <= 2; ++s.seed) {
        run_as(s, s.seed == 1 ? EMU_SCHEDULE_RANDOM : EMU_SCHEDULE_LAZY, image, o);
        if (o.report.verdict != EMU_PASSED)
            fail_msg("%s\n%s", emu_verdict_name(o.report.verdict), o.report.text);
        std::string wrong = wrong_element(p, o);
        if (!wrong.empty())
            fail_msg("%s: %s", name_of(p).c_str(), wrong.c_str());
    }
}

// The product with one bit of its parameters turned over (0-63: A's descriptor, 64-127: B's, 128-159: the instruction's): an error
// or a wrong result? Another product's columns lie behind, so that too many columns are noticed as well.
bool is_noticed(const product_case &p, uint32_t bit) {
    std::vector<char> image = image_of(p);
    outcome o;
    setting s = product_setting("product_beside_another", p, image.size());
    image[bit / 8] = static_cast<char>(image[bit / 8] ^ 1 << bit % 8);
    run_as(s, EMU_SCHEDULE_EAGER, image, o);
    return o.report.verdict != EMU_PASSED || !wrong_element(p, o).empty();
}

// Every bit of an operand's descriptor matters, but for the leading dimension of a swizzled K-major operand, which the ISA does not
// read: there is one span along K.
void check_bits_of_operand(const product_case &p, const layout &l, uint32_t first, const char *operand) {
    for (uint32_t bit = 0; bit < 64; ++bit) {
        bool unused = l.by_row && l.swizzle && bit >= 16 && bit < 30;
        if (is_noticed(p, first + bit) == unused)
            fail_msg("%s: bit %u of %s's descriptor turned over %s", name_of(p).c_str(), bit, operand,
                     unused ? "is noticed" : "is not noticed");
    }
}

void every_operand_layout(void **) {
    static const uint32_t swizzles[] = {0, 32, 64, 128};
    for (int i = 0; i < 8; ++i) {
        layout a = layout_of(i % 2, swizzles[i / 2]);
        for (int j = 0; j < 8; j += i == 7 ? 1 : 3) {
            layout b = layout_of(j % 2, swizzles[j / 2]);
            check_product(product_case{128, 64, a, b, true, true, false});
        }
    }
}

void every_shape_and_type(void **) {
    layout k_major = layout_of(true, 128);
    for (uint32_t m : {64u, 128u})
        for (uint32_t n : {32u, 96u, 256u})
            check_product(product_case{m, n, k_major, k_major, true, true, false});
    check_product(product_case{128, 32, k_major, k_major, false, true, false});
    check_product(product_case{128, 32, k_major, k_major, true, false, false});
    check_product(product_case{128, 32, k_major, k_major, true, true, true});
}

void every_bit_of_a_descriptor(void **) {
    static const uint32_t swizzles[] = {0, 32, 64, 128};
    for (int i = 0; i < 8; ++i) {
        product_case p{128,  128,  layout_of(i % 2, swizzles[i / 2]), layout_of(i % 2, swizzles[i / 2]), true,
                       true, false};
        assert_false(is_noticed(p, 24 * 8 + 32 * 8)); // a byte that nobody reads
        check_bits_of_operand(p, p.a, 0, "A");
        check_bits_of_operand(p, p.b, 64, "B");
        for (uint32_t bit = 0; bit < 32; ++bit)
            if (!is_noticed(p, 128 + bit))
                fail_msg("%s: bit %u of the instruction's descriptor turned over is not noticed", name_of(p).c_str(),
                         bit);
    }
}

void products_are_waited_for(void **) {
    product_case p{128, 32, layout_of(true, 128), layout_of(true, 128), true, true, false};
    std::vector<char> image = image_of(p);
    outcome o = expect(product_setting("product_read_early", p, image.size()), EMU_TOO_EARLY, image);
    assert_non_null(strstr(o.report.text, "tcgen05.ld"));
}

void shapes_that_do_not_exist(void **) {
    layout l = layout_of(true, 128);
    product_case p{128, 32, l, l, true, true, false};
    std::vector<char> image = image_of(p);
    for (uint32_t wrong : {96u / 16 << 24 | 4u << 17, 128u / 16 << 24 | 1u << 17, 256u / 16 << 24 | 4u << 17,
                           128u / 16 << 24 | 33u << 17}) {
        uint32_t instruction = 1u << 4 | 1u << 7 | 1u << 10 | wrong;
        memcpy(&image[16], &instruction, 4);
        expect(product_setting("product", p, image.size()), EMU_BAD_OPERAND, image);
    }
}

// ---------------------------------------------------------------- tensor memory

setting two_on_one_sm(const char *name, int columns) {
    setting s = kernel(name, 32, 2);
    s.m = columns;
    s.ctas_per_sm = 2;
    return s;
}

void allocations_are_powers_of_two(void **) {
    for (int columns = 32; columns <= 512; columns *= 2) {
        setting s = kernel("allocate_any");
        s.m = columns;
        outcome o = expect(s, EMU_PASSED);
        assert_int_equal((o.words[0] - 1) % static_cast<uint32_t>(columns), 0);
    }
    for (int columns : {0, 16, 48, 96, 1024}) {
        setting s = kernel("allocate_any");
        s.m = columns;
        expect(s, EMU_BAD_OPERAND);
    }
}

void ctas_of_an_sm_share_its_memory(void **) {
    outcome o = expect(two_on_one_sm("allocate_together", 256), EMU_PASSED);
    assert_int_equal(std::max(o.words[0], o.words[1]), 257);
    assert_int_equal(std::min(o.words[0], o.words[1]), 1);
    expect(two_on_one_sm("allocate_any", 512), EMU_PASSED); // one after the other
    o = expect(two_on_one_sm("allocate_together", 512), EMU_DEADLOCK);
    assert_non_null(strstr(o.report.text, "waits at tcgen05.alloc 512"));
    expect(two_on_one_sm("allocate_and_keep_the_right", 64), EMU_DEADLOCK);
    setting apart = two_on_one_sm("allocate_together", 512);
    apart.ctas_per_sm = 1;
    expect(apart, EMU_PASSED);
}

void frees_match_allocations(void **) {
    expect(kernel("free_twice"), EMU_TENSOR_MEMORY);
    expect(kernel("free_a_part"), EMU_TENSOR_MEMORY);
}

void loads_stay_inside_what_is_there(void **) {
    expect(kernel("load_of_nothing"), EMU_TOO_EARLY);
    expect(kernel("load_past_the_end"), EMU_OUT_OF_BOUNDS);
}

void warps_act_together(void **) {
    expect(kernel("lanes_differ"), EMU_DIVERGED);
    expect(kernel("part_of_a_warp"), EMU_DEADLOCK);
}

void groups_do_not_mix(void **) {
    expect(kernel("pair_of_one"), EMU_OUT_OF_BOUNDS); // no second CTA
    expect(kernel("groups_mixed"), EMU_BAD_OPERAND);
}

void commits_need_a_fenced_barrier(void **) {
    expect(kernel("commit_not_fenced"), EMU_UNFENCED);
}

void pairs_allocate_together(void **) {
    setting s = kernel("pair_allocates", 32, 4);
    s.cluster = 2;
    outcome o = expect(s, EMU_PASSED);
    assert_int_equal(o.words[0], o.words[1]); // the same columns in both
    assert_int_equal(o.words[2], o.words[3]);
    s.wave = 1;
    expect(s, EMU_DIVERGED);
    s = kernel("pair_frees_alone", 32, 2);
    s.cluster = 2;
    for (s.seed = 1; s.seed <= 3; ++s.seed) { // either one waits for ever, or the other one's end is seen first
        run_as(s, EMU_SCHEDULE_RANDOM, {}, o);
        assert_true(o.report.verdict == EMU_DEADLOCK || o.report.verdict == EMU_TENSOR_MEMORY);
    }
}

} // namespace

int main() {
    EMU_RETURN_IF_UNWATCHABLE();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operand_layout),
        cmocka_unit_test(every_shape_and_type),
        cmocka_unit_test(every_bit_of_a_descriptor),
        cmocka_unit_test(products_are_waited_for),
        cmocka_unit_test(shapes_that_do_not_exist),
        cmocka_unit_test(allocations_are_powers_of_two),
        cmocka_unit_test(ctas_of_an_sm_share_its_memory),
        cmocka_unit_test(frees_match_allocations),
        cmocka_unit_test(loads_stay_inside_what_is_there),
        cmocka_unit_test(warps_act_together),
        cmocka_unit_test(groups_do_not_mix),
        cmocka_unit_test(commits_need_a_fenced_barrier),
        cmocka_unit_test(pairs_allocate_together),
    };
    return cmocka_run_group_tests(tests, build_all, release);
}
