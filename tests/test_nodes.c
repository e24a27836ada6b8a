/* Which ranks share a node, and whether nodes can be used as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/nodes.h"

static grs_error err;

/* A rank a letter: the node that it is on. */
static int hellos(const char *letters, struct nodes_hello *out) {
    int size = (int)strlen(letters);
    for (int rank = 0; rank < size; rank++) {
        char name[2] = {letters[rank], '\0'};
        setenv("GRS_NODE", name, 1);
        nodes_hello_init(&out[rank], rank);
    }
    unsetenv("GRS_NODE");
    return size;
}

static void test_decisions(void **state) {
    static const struct {
        const char *ranks;
        int count, local;
        const char *why;
    } cases[] = {
        {"a", 1, 1, ""},
        {"aaaa", 1, 4, ""},
        {"aabb", 2, 2, ""},
        {"bbaacc", 3, 2, ""},
        {"aaabbb", 2, 3, ""},
        {"ab", 2, 1, "every rank is on a node of its own"},
        {"abcd", 4, 1, "every rank is on a node of its own"},
        {"aab", 3, 1, "nodes differ in size: 2 ranks on a, 1 on b"},
        {"abb", 3, 1, "nodes differ in size: 1 rank on a, 2 on b"},
        {"aabbb", 5, 1, "nodes differ in size: 2 ranks on a, 3 on b"},
        {"abab", 4, 1,
         "ranks 0 and 2 are both on a, and rank 1 between them is not: the ranks of a node must be numbered one behind "
         "the other"},
        {"aabaa", 5, 1,
         "ranks 0 and 3 are both on a, and rank 2 between them is not: the ranks of a node must be numbered one behind "
         "the other"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nodes_hello all[8];
        struct nodes nodes;
        int size = hellos(cases[i].ranks, all);
        assert_int_equal(nodes_check(all, size, &err), GRS_OK);
        nodes_decide(all, size, &nodes);
        if (nodes.count != cases[i].count || nodes.local != cases[i].local || strcmp(nodes.why, cases[i].why) != 0) {
            fail_msg("%s: %d nodes of %d, '%s'", cases[i].ranks, nodes.count, nodes.local, nodes.why);
        }
    }
}

/* Without GRS_NODE: the same host is one node, and not a node that has its name. */
static void test_hosts(void **state) {
    struct nodes_hello all[2], named;
    struct nodes nodes;
    (void)state;
    unsetenv("GRS_NODE");
    nodes_hello_init(&all[0], 0);
    setenv("GRS_NODE", "", 1);
    nodes_hello_init(&all[1], 1);
    assert_string_equal(all[0].node, all[1].node);
    nodes_decide(all, 2, &nodes);
    assert_int_equal(nodes.local, 2);
    setenv("GRS_NODE", strchr(all[0].node, ' ') + 1, 1);
    nodes_hello_init(&named, 0);
    unsetenv("GRS_NODE");
    assert_string_not_equal(named.node, all[0].node);
    snprintf(all[1].node, sizeof(all[1].node), "boot another");
    nodes_decide(all, 2, &nodes);
    assert_int_equal(nodes.count, 2);
}

static void test_what_is_told_is_checked(void **state) {
    struct nodes_hello all[3];
    char name[80];
    (void)state;
    hellos("aab", all);
    all[2].rank = 1;
    assert_int_equal(nodes_check(all, 3, &err), GRS_ERR_PEER);
    assert_non_null(strstr(err.text, "all-gather gave for rank 2 is not what that rank"));
    hellos("aab", all);
    all[1].bytes--;
    assert_int_equal(nodes_check(all, 3, &err), GRS_ERR_PEER);
    hellos("aab", all);
    snprintf(all[1].version, sizeof(all[1].version), "0.0.9");
    assert_int_equal(nodes_check(all, 3, &err), GRS_ERR_PEER);
    assert_non_null(strstr(err.text, " on ranks 0 and 2; 0.0.9 on rank 1"));
    hellos("aab", all);
    memset(all[1].node, 'x', sizeof(all[1].node));
    memset(all[1].name, '\001', sizeof(all[1].name));
    assert_int_equal(nodes_check(all, 3, &err), GRS_OK);
    assert_int_equal(strlen(all[1].node), sizeof(all[1].node) - 1);
    assert_int_equal(all[1].name[0], '?');
    memset(name, 'y', sizeof(name));
    name[65] = '\0';
    setenv("GRS_NODE", name, 1);
    nodes_hello_init(&all[1], 1);
    assert_int_equal(nodes_check(all, 3, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "rank 1: GRS_NODE has 65 bytes; allowed: up to 64");
    name[64] = '\0';
    setenv("GRS_NODE", name, 1);
    nodes_hello_init(&all[1], 1);
    unsetenv("GRS_NODE");
    assert_int_equal(nodes_check(all, 3, &err), GRS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decisions), cmocka_unit_test(test_hosts),
                                       cmocka_unit_test(test_what_is_told_is_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
