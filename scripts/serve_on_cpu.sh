#!/bin/sh
# vllm serve MODEL [OPTION]...: vLLM from its wheel for CPUs, whose own command asks for another
# wheel. What libs/podium_kit/embedded/vllm/server.py says about each setting holds here.
set -eu
[ "${1:-}" = serve ] && shift
model=$1
shift
# bfloat16 where the CPU computes in it; elsewhere float32 is up to five times faster.
dtype=float32
grep -qwE 'avx512_bf16|amx_bf16|bf16' /proc/cpuinfo && dtype=bfloat16
: "${OMP_NUM_THREADS:=$(nproc)}" "${OMP_WAIT_POLICY:=passive}" "${VLLM_CPU_KVCACHE_SPACE:=1}"
: "${VLLM_CPU_OMP_THREADS_BIND:=nobind}" "${VLLM_ENABLE_V1_MULTIPROCESSING:=0}"
: "${TORCH_COMPILE_DISABLE:=1}" "${HF_HUB_OFFLINE:=1}" "${VLLM_LOGGING_LEVEL:=WARNING}"
export OMP_NUM_THREADS OMP_WAIT_POLICY VLLM_CPU_KVCACHE_SPACE VLLM_CPU_OMP_THREADS_BIND \
  VLLM_ENABLE_V1_MULTIPROCESSING TORCH_COMPILE_DISABLE HF_HUB_OFFLINE VLLM_LOGGING_LEVEL
exec python -m serve --model "$model" --dtype "$dtype" \
  --enforce-eager --enable-prefix-caching --distributed-executor-backend uni \
  --max-num-batched-tokens 2048 --disable-uvicorn-access-log "$@"
