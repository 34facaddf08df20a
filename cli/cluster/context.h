// What a command may touch besides its arguments; main.cc gives the real world, a test its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cli/console/console.h"
#include "remote/agent_client.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/ssh/known_hosts.h"

namespace paddle::cli {

constexpr std::size_t kNodesAtOnce = 32;  // one thread with a blocking client each

// What --timeout and --parallel say.
struct NodeLimits {
  Duration timeout{};  // as NodeSpec::timeout has it
  std::size_t at_once = kNodesAtOnce;
};

struct Context {
  Console& console;
  const Clock& clock;
  // Called from several threads at once. Null: not `create`, and nothing of ours is on the node.
  std::function<Result<std::unique_ptr<remote::AgentClient>>(const remote::NodeSpec&, bool create)>
      connect;
  // Waits at most this long; returns at once when Ctrl-C was or is pressed.
  std::function<void(Duration)> pause;
  std::function<bool()> interrupted;
  std::function<std::int64_t()> unix_seconds;  // wall clock, for names only
  std::string engine;                          // local path of the `paddle` binary
  std::string directory;                       // the current directory, absolute
  std::string hash_cache = {};                 // file for remote::HashCache; "": none
  // One line from the person at the terminal; nothing without one. secret: not echoed.
  std::function<std::optional<std::string>(std::string_view question, bool secret)> ask = {};
  // Called from several threads at once.
  std::function<Result<remote::ShownHostKey>(const remote::NodeSpec&)> host_key = {};
  // The Ctrl-C that came is dealt with: interrupted() is false until the next one.
  std::function<void()> take_interrupt = {};
  // What connect and host_key log in with besides keys; null: nothing.
  remote::LoginAnswers* answers = nullptr;
  std::string share = {};  // find_share_folder
  // Wall clock, to compare a node's with; null: it is not compared.
  std::function<std::int64_t()> unix_ms = {};
  NodeLimits limits = {};  // for the nodes of this command
};

}  // namespace paddle::cli
