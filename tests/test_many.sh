#!/usr/bin/env bash
# tests/gpu/many.sh and the sets of bench/run.sh that it runs, without a GPU: what they ask for, in which order, and that a step fails
# when what it has started fails, says the wrong thing or hangs. grsrun, torchrun and nvidia-smi are scripts that note their command
# lines and do wrong on demand; what is precompiled is compiled by the stand-in for NVRTC. And tests/gpu/test_groups on stand-ins for
# GPUs (tests/shim_hostgpu.c), whose ranks wait for one another as those on GPUs do.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
unset GPUS BUDGET BENCH_OUT BENCH_FLAGS TORCHRUN NO_ASYNC_TP CUDA_VISIBLE_DEVICES RANK
real=$BUILD
export GRS_CACHE_DIR=$TMP/cache GRS_NVRTC=$real/tests/shim/libnvrtc.so GRS_LIBCUDA=/nonexistent
export STUB_LOG=$TMP/log

# ---------------------------------------------------------------- precompiling

compiled() { grep -oE 'grs_gemm_rs_[a-z0-9]+_k[0-9]+_tp[0-9]+' "$TMP/out" | sort -u | sed 's/grs_gemm_rs_//' | paste -sd' '; }
models() { # GPUS KERNELS
    GPUS=$1 exits 0 bench/run.sh --precompile models && silent err || return 1
    compiled
    [[ $(compiled) == "$2" && $(grep -c 'with wait counters' "$TMP/out") -eq $(($(wc -l <"$TMP/out") / 2)) ]]
}
as_config() { # the configs' K for this tp are the set's
    local k
    for k in 2048 7168 7392; do
        cat configs/llama3_70b.yaml configs/qwen2_5_72b.yaml | grep -q "n: 8192, k: $k, tp: 4," || { echo "no K $k"; return 1; }
    done
}
refused() { # GPUS TEXT SET
    GPUS=$1 exits 1 bench/run.sh --precompile "$3" && says err "$2"
}
no_such_set() { exits 2 bench/run.sh --precompile frobnicate && says err "bench: 'frobnicate' is none of gemm, "; }
all_kernels() { # of the exact check, of odd shapes, of groups of half of them, of test_groups; and a second time nothing is compiled
    export GRS_CACHE_DIR=$TMP/cache2
    GPUS=4 exits 0 tests/gpu/many.sh --precompile || return 1
    local kernel
    for kernel in n4096_k2048_tp4 n4096_k2048_tp2 n136_k72_tp4 n136_k72_tp2 n136_k72_tp1 n8192_k7392_tp4 n4104_k2056_tp4 n256_k128_tp2 n8192_k2048_tp4; do
        grep -q "grs_gemm_rs_${kernel}_.*compiled$" "$TMP/out" || { echo "no $kernel"; return 1; }
    done
    GPUS=4 exits 0 tests/gpu/many.sh --precompile && ! grep -q ' compiled$' "$TMP/out"
}

check "models on 4 GPUs" models 4 "n8192_k2048_tp4 n8192_k7168_tp4 n8192_k7392_tp4"
check "models on 8 GPUs" models 8 "n8192_k1024_tp8 n8192_k3584_tp8 n8192_k3696_tp8"
check "models are what the configs have" as_config
check "models where K is no multiple of 8" refused 5 'bench: models: K of a rank is no multiple of 8 on 5 GPUs' models
check "models on one GPU" refused 1 'bench: models needs two GPUs' models
check "ablation-link on one GPU" refused 1 'bench: ablation-link needs two GPUs' ablation-link
check "a set that is none" no_such_set
check "all kernels of tests/gpu/many.sh" all_kernels

# ---------------------------------------------------------------- stand-ins

mkdir -p "$TMP/bin" "$TMP/build/tests/gpu"
cat >"$TMP/bin/nvidia-smi" <<'END'
#!/usr/bin/env bash
case $1 in
--list-gpus) for ((i = 0; i < STUB_GPUS; i++)); do echo "GPU $i: NVIDIA Stub 1"; done ;;
*) for ((i = 0; i < STUB_GPUS; i++)); do echo "NVIDIA Stub 1"; done ;;
esac
END
cat >"$TMP/bin/torchrun" <<'END'
#!/usr/bin/env bash
echo "torchrun $*" >>"$STUB_LOG"
if [[ $1 == --standalone ]]; then # bench/async_tp.py: shapes from the fifth word on
    python3 - "${@:5}" <<'PY'
import json, os, sys
rows = [{"m": m, "n": n, "k": k, "tp": int(os.environ["STUB_GPUS"]), "mode": mode, "async_tp_us": 7.0}
        for m, n, k in (map(int, text.split(",")) for text in sys.argv[2:]) for mode in ("back_to_back", "isolated")]
json.dump({"kind": "async_tp", "gpu": "Stub", "rows": rows[os.environ.get("STUB_WRONG") == "async":]}, open(sys.argv[1], "w"))
PY
    exit
fi
for ((i = 0; i < $3; i++)); do RANK=$i "${@:4}" || exit 1; done
END
cat >"$TMP/build/tests/gpu/test_groups" <<'END'
#!/usr/bin/env bash
echo test_groups >>"$STUB_LOG"
[[ ${STUB_WRONG:-} != groups ]]
END
cat >"$TMP/build/tests/gpu/test_nccl" <<'END'
#!/usr/bin/env bash
echo test_nccl >>"$STUB_LOG"
[[ ${STUB_WRONG:-} != nodes ]]
END
cat >"$TMP/build/grsrun" <<'END'
#!/usr/bin/env python3
import json, os, signal, subprocess, sys, time
words, wrong = sys.argv[1:], os.environ.get("STUB_WRONG", "")
def value(name, default=None):
    return words[words.index(name) + 1] if name in words else default
with open(os.environ["STUB_LOG"], "a") as log:
    print(os.environ.get("CUDA_VISIBLE_DEVICES", ""), "grsrun", *words, file=log)
if "--version" in words:
    print("grsrun 0.1.0 (stub)")
elif "--help" in words:
    print("  --skew")
elif wrong == "hang" and "--graph" in words:
    child = subprocess.Popen(["sleep", "1000"])
    print(child.pid, file=open(os.environ["STUB_LOG"] + ".pid", "w"), flush=True)
    child.wait()
else:
    shapes = []
    for text in [word.removeprefix("--shape=") for i, word in enumerate(words) if word.startswith("--shape=") or words[i - 1] == "--shape"]:
        *ms, n, k = text.split(",")
        for m in ms:
            first, _, last = m.partition(":")
            m = int(first)
            while m <= int(last or first):
                shapes.append((m, int(n), int(k)))
                m *= 2
    tp = int(value("--tp"))
    ranks = 1 if "RANK" in os.environ else tp
    if value("--rounds") == "100000":  # to be killed
        children = [subprocess.Popen(["sleep", "20"]) for _ in range(tp)]
        for rank in range(tp):
            print(f"rank {rank} | # M verdict", flush=True)
        code = children[1].wait()
        for child in children[:1] + children[2:] if wrong != "left" else []:
            child.kill()
        print(f"rank 1 was ended by signal {-code}", file=sys.stderr)
        sys.exit(1)
    if "--procs" in words:
        for rank in range(ranks):
            print("# verdict")
            for _ in range(2 * len(shapes) - (wrong == "rank" and rank == 0)):
                print("  ok")
        sys.exit(wrong == "procs")
    if "--verify" in words:
        launches = 2 * int(value("--repeat", 2))
        rows = [{"passed": True, "mismatches": 0, "repeats_equal": True, "launches": launches, "ranks_per_gpu": 1, "mode": mode,
                 "metric": 2e-5 if wrong == "metric" and mode == "random" else 3e-6} for _ in shapes for mode in ("exact", "random")]
        if wrong == "launches":
            rows[-1]["launches"] -= 1
    elif "--ablate" in words:
        rows = [{"m": m, "n": n, "k": k, "us": 2.0} for m, n, k in shapes for _ in range(15)]
    else:
        rows = [{"m": m, "n": n, "k": k, "tp": tp, "ranks_per_gpu": 1, "mode": mode, "ours_us": 10.0, "cublas_us": 8.0,
                 "cublas_nccl_us": None if wrong == "models" else 20.0, "async_tp_us": None,
                 "skew": {} if mode == "back_to_back" and "--skew" in words else None}
                for m, n, k in shapes for mode in ("back_to_back", "isolated")]
    if value("--save"):
        json.dump({"kind": "bench", "gpu": "Stub", "rows": rows}, open(value("--save"), "w"))
END
chmod +x "$TMP"/bin/* "$TMP"/build/grsrun "$TMP"/build/tests/gpu/test_{groups,nccl}

many() { # GPUS STEPS...
    rm -rf "$STUB_LOG" "$TMP/results"
    PATH=$TMP/bin:$PATH BUILD=$TMP/build BENCH_OUT=$TMP/results STUB_GPUS=$1 tests/gpu/many.sh "${@:2}"
}
asked() { grep -qE -e "$1" "$STUB_LOG" || { echo "nobody asked for: $1"; cat "$STUB_LOG"; return 1; }; }

# ---------------------------------------------------------------- running

everything() {
    exits 0 many 4 && silent err && says out '# 4 x stub-1, grsrun 0.1.0 (stub)' && says out '11 right, 0 wrong, 0 not reached' &&
        [[ $(grep -oE '^ok .* s  [a-z]+' "$TMP/out" | awk '{print $4}' | paste -sd' ') == \
            "exact odd processes killed graph ablation models groups skew nodes async" ]] &&
        says out 'models.json: back_to_back: cuBLAS + NCCL / ours: geometric mean 2.000 of 21' &&
        cmp <(grep -v '^    |' "$TMP/out") "$TMP/results/many-summary.txt" &&
        asked 'grsrun --backend gpu --verify --shape 256:8192,4096,2048 --tp 4 --ranks-per-gpu 1 --save .*/stub-1-x4-verify.json$' &&
        asked '^torchrun --no-python --nproc-per-node 4 .*/grsrun --procs --shape 256:8192,4096,2048 --tp 4$' &&
        asked 'grsrun .*--ablate --tp 4 --ranks-per-gpu 1 --shape 512:8192,4096,2048$' &&
        asked 'grsrun .*--bench --skew --tp 4 --ranks-per-gpu 1 .*--shape=16384,8192,7392$' &&
        asked '^0,1 grsrun --procs .*--tp 2 --rounds 5' && asked '^2,3 grsrun --procs .*--tp 2 --rounds 5' &&
        asked 'grsrun --procs --nodes 2 .*--tp 4 --ldd .8' && asked 'grsrun --procs --nodes 4 .*--tp 4 --graph' &&
        [[ $(grep -c '^torchrun --standalone' "$STUB_LOG") -eq 1 ]] && asked '^torchrun --standalone --nproc-per-node=4 ' &&
        python3 -c "import json; assert all(row['async_tp_us'] == 7 for row in json.load(open('$TMP/results/stub-1-x4-models.json'))['rows'])"
}
some() { # on two of eight GPUs, of which this process may see four
    GPUS=2 CUDA_VISIBLE_DEVICES=4,5,6,7 exits 0 many 8 exact groups && says out '2 right, 0 wrong' && asked '^4,5 grsrun --backend gpu .*--tp 2 ' &&
        asked '^test_groups$' && ! grep -q -e '--procs' "$STUB_LOG"
}
wrong() { # WHAT STEP TEXT
    STUB_WRONG=$1 exits 1 many 4 "$2" odd && says out "FAILED" && says out "$3" && says out '1 right, 1 wrong, 0 not reached'
}
wrong_async() { # of one shape
    STUB_WRONG=async exits 1 many 4 models async && says out '1 right, 1 wrong' && says out "without a value: [(256, 8192, 2048, 'async_tp_us')"
}
hangs() { # it is ended, with what it has started, and what does not fit any more is said
    STUB_WRONG=hang BUDGET=18 exits 1 many 4 graph odd && says out 'graph: its time was over' && says out 'missed         odd: 18 s are over' &&
        says out '0 right, 1 wrong, 1 not reached' &&
        ! grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$STUB_LOG.pid")/status" 2>/dev/null
}
one_gpu() { exits 1 many 1 && says err 'many: two GPUs or more are needed, and nvidia-smi lists 1'; }
no_such_step() { exits 2 many 4 exact frobnicate && says err "many: 'frobnicate' is none of exact odd" && [[ ! -e $STUB_LOG ]]; }
no_torchrun() { TORCHRUN=/nonexistent/torchrun exits 1 many 4 processes && says out 'there is no /nonexistent/torchrun'; }

check "every step, in order, on four GPUs" everything
check "some steps, on some of the GPUs that may be seen" some
check "a metric that is too large" wrong metric exact 'not so: '
check "fewer launches than were asked for" wrong launches graph 'not so: '
check "a rank that says nothing" wrong rank processes '  ok'
check "ranks that fail" wrong procs processes '  ok'
check "a rank that outlives the others" wrong left killed 'is left'
check "a baseline that was not measured" wrong models models "without a value: [(256, 8192, 2048, 'cublas_nccl_us')"
check "PyTorch's operator without a time" wrong_async
check "groups that disturb one another" wrong groups groups 'FAILED'
check "nodes whose results are wrong" wrong nodes nodes 'FAILED'
check "a rank over nodes that says nothing" wrong rank nodes '  ok'
check "a step that hangs" hangs
check "one GPU" one_gpu
check "a step that is none" no_such_step
check "no torchrun" no_torchrun

# ---------------------------------------------------------------- two groups at once

groups() { # CODE GPUS
    HOSTGPU_DEVICES=$2 GRS_TEST_BATCHES=2 GRS_LIBCUDA=$real/tests/shim/libhostgpu.so exits "$1" timeout 120 "$real/tests/gpu/test_groups"
}
groups_pass() { groups 0 "$1" && says out '1..18' && ! grep '^not ok' "$TMP/out"; }
groups_fail() { # one bit of one element is wrong in every launch: nothing is right but that a group waits, is aborted, or is killed
    HOSTGPU_FAULT=flip groups 1 4 && says out 'not ok 1 - group 0 of 2 ranks' && says out 'not ok 3 - ' && says out 'not ok 10 - ' &&
        says out 'not ok 13 - two processes' && says out 'column 255: found'
}
check "the test of two groups is built" make -s BUILD="$real" "$real/tests/gpu/test_groups"
check "two groups on two GPUs each" groups_pass 4
check "two groups on one GPU" groups_pass 1
check "groups whose results are wrong" groups_fail

# ---------------------------------------------------------------- several nodes

nodes() { # CODE
    GRS_LIBCUDA=$real/tests/shim/libhostgpu.so GRS_NCCL=$real/tests/shim/libnccl.so GRS_ARCH=sm_90a GRS_CACHE_DIR=$TMP/nodes \
        exits "$1" timeout 300 "$real/tests/gpu/test_nccl"
}
nodes_pass() { nodes 0 && says out '1..6' && ! grep '^not ok' "$TMP/out"; }
nodes_fail() { # one bit of one element is wrong in every launch of a kernel
    HOSTGPU_FAULT=flip nodes 1 && says out 'not ok 1 - ' && says out 'not ok 2 - ' && says out 'not ok 3 - ' && says out 'not ok 4 - '
}
check "the test of nodes is built" make -s BUILD="$real" "$real/tests/gpu/test_nccl" "$real"/tests/shim/lib{hostgpu,nccl}.so
check "nodes of an ncclComm_t" nodes_pass
check "nodes whose kernels are wrong" nodes_fail
finish
