# Sets `quick`, flags of XLA for small programs. Sourced after setup_env.sh.
# Small tests and notebooks spend most of their time compiling. Without optimization and without the
# fusion emitters, compiling takes a quarter of the time.
quick="--xla_backend_optimization_level=0"
# other versions of jaxlib may reject these flags; each program is compiled in one piece, because all
# cores are busy, and two passes over loops would take a sixth of the time
jaxlib="$("$PYTHON" -c 'import jaxlib; print(jaxlib.__version__)')"
case "$jaxlib" in
0.10.* | 0.12.*)
    quick="$quick --xla_cpu_parallel_codegen_split_count=1 --xla_llvm_disable_expensive_passes=true"
    quick="$quick --xla_disable_hlo_passes=simplify-while-loops,while-loop-invariant-code-motion" ;;
esac
case "$jaxlib" in
0.10.*) quick="$quick --xla_cpu_use_fusion_emitters=false" ;;
esac
