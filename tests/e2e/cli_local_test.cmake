# paddlectl, the agent and the engine as users run them, on nodes of this machine.
if(TARGET paddle AND TARGET paddlectl)
  paddle_test(cli_local_test LABEL e2e TIMEOUT 120
    SOURCES cli_local_test.cc cli_local_test_cluster.cc
    LINK engine_base fmt_library)
  target_compile_definitions(cli_local_test PRIVATE
    PADDLECTL_PROGRAM="$<TARGET_FILE:paddlectl>" TEMPLATES_FOLDER="${PROJECT_SOURCE_DIR}/templates")
  add_dependencies(cli_local_test paddlectl paddlectl-agent paddle)
endif()
