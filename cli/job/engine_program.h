// The engine's `paddle`: pushed to nodes, which store it once per content, and run on this machine
// for results that only the engine can compute.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

// {local path, "bin/paddle-<first 16 hex digits of its SHA-256>", executable}. kUsage: there is no
// such file.
Result<remote::PushItem> engine_item(const std::string& local_path);

// The output of a `paddle` that exited with 0.
struct EngineOutput {
  std::string out, error;
};

// Runs `paddle <arguments>`. An exit code other than 0 is an error with that code and the program's
// message. kResource: it cannot be started, or takes longer than `limit`. kInterrupted: Ctrl-C.
constexpr Duration kEngineLimit = std::chrono::minutes(1);
Result<EngineOutput> run_engine_apart(const std::string& program,
                                      std::vector<std::string> arguments,
                                      std::optional<Duration> limit = kEngineLimit);
// run_engine_apart(), but returns only the text on stdout.
Result<std::string> run_engine(const std::string& program, std::vector<std::string> arguments,
                               std::optional<Duration> limit = kEngineLimit);

// The error of a `paddle` that exited with `code`, from the text that it printed.
Error engine_error(int code, std::string text);

// kVersion, with both versions: the program is of another release.
Status check_engine_version(const std::string& program);

}  // namespace paddle::cli
