"""The settings of JAX's persistent compilation cache."""

JAX_FOLDER = "jax_compilation_cache_dir"
SETTINGS = (
    JAX_FOLDER,
    "jax_persistent_cache_min_compile_time_secs",
    "jax_raise_persistent_cache_errors",
    "jax_enable_compilation_cache",
)
