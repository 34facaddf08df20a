paddle_test(local_training_test LABEL e2e TIMEOUT 300
  SOURCES local_training_test.cc local_training_job.cc
  LINK engine_base fmt_library)
target_compile_definitions(local_training_test PRIVATE PADDLE_PROGRAM="$<TARGET_FILE:paddle>")
add_dependencies(local_training_test paddle)
