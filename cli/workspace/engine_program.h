// The engine's `paddle`: as pushed to nodes, which store it once per content, and run on this
// machine for what only it can compute.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

// {local path, "bin/paddle-<first 16 hex digits of its SHA-256>", executable}. kUsage when there is
// no such file.
Result<remote::PushItem> engine_item(const std::string& local_path);

// Text of a `paddle` that has ended with 0.
struct EngineOutput {
  std::string out, error;
};

// Runs `paddle <arguments>`. An exit code other than 0 is an error with that code and the program's
// message; kResource when it cannot be started or takes longer than `limit`; kInterrupted.
constexpr Duration kEngineLimit = std::chrono::minutes(1);
Result<EngineOutput> run_engine_apart(const std::string& program,
                                      std::vector<std::string> arguments,
                                      std::optional<Duration> limit = kEngineLimit);
// The same; its text on stdout.
Result<std::string> run_engine(const std::string& program, std::vector<std::string> arguments,
                               std::optional<Duration> limit = kEngineLimit);

// The error of a `paddle` that has exited with `code`, from what it printed.
Error engine_error(int code, std::string text);

// kVersion, with both versions, when that program is of another release.
Status check_engine_version(const std::string& program);

}  // namespace paddle::cli
