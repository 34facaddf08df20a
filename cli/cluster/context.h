// A command's access to the world: console, clock, nodes, files. main.cc passes the real one, tests
// a fake.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/cluster/provider.h"
#include "cli/console/console.h"
#include "remote/client/agent_client.h"
#include "remote/launcher/host_key_learning.h"
#include "remote/launcher/login_answers.h"

namespace paddle::cli {

constexpr std::size_t kNodesAtOnce = 32;  // one thread with a blocking client each

// --timeout, --parallel and --allow-proxy-command.
struct NodeLimits {
  Duration timeout{};  // see NodeSpec::timeout
  std::size_t at_once = kNodesAtOnce;
  bool allow_proxy_command = false;
};

struct Context {
  Console& console;
  const Clock& clock;
  // Called from several threads at once. Null when the node has no folder of the cluster and
  // `create` is false.
  std::function<Result<std::unique_ptr<remote::AgentClient>>(const remote::NodeSpec&, bool create)>
      connect;
  // Waits at most this long; returns at once when Ctrl-C was or is pressed.
  std::function<void(Duration)> pause;
  std::function<bool()> interrupted;
  std::function<std::int64_t()> unix_seconds;  // wall clock, for names only
  std::string engine;                          // local path of the `paddle` binary
  std::string directory;                       // the current directory, absolute
  std::string hash_cache = {};                 // file for remote::HashCache; "": none
  // Asks the user at the terminal; returns nothing if there is no terminal. secret: no echo.
  std::function<std::optional<std::string>(std::string_view question, bool secret)> ask = {};
  // Called from several threads at once.
  std::function<Result<remote::ShownHostKey>(const remote::NodeSpec&)> host_key = {};
  // Acknowledges a Ctrl-C: interrupted() is false until the next one.
  std::function<void()> take_interrupt = {};
  // Sets whether Ctrl-C prints that another Ctrl-C exits immediately. It does so at first; a
  // command that prints its own note about Ctrl-C turns this off.
  std::function<void(bool)> note_interrupts = {};
  // Passwords for connect and host_key; null: keys only.
  remote::LoginAnswers* answers = nullptr;
  std::string share = {};  // find_share_folder
  // Wall clock to compare with the nodes'; null: no comparison.
  std::function<std::int64_t()> unix_ms = {};
  NodeLimits limits = {};                   // for the nodes of this command
  std::vector<std::string> arguments = {};  // the command line, as typed
  std::size_t command_at = 0;    // index of the command's name; global options may precede it
  std::string ssh_library = {};  // its name and version
  std::string who = {};          // "alice@laptop, pid 12": names this program to others
  // remote::folders_beside; null: not available. Called from several threads at once.
  std::function<Result<std::vector<std::string>>(const remote::NodeSpec&)> folders_beside = {};
  // remote::machine_of; null: not available. Called for a node that has lost a job's files.
  std::function<Result<std::string>(const remote::NodeSpec&)> machine_of = {};
  // Why a node was replaced, restarted or lost, in the words of what made it, such as "Evicted: The
  // node was low on resource: memory"; "": not known. Null: the nodes of this cluster were not made
  // by paddlectl. Called once for each such node, when a command is about to report it.
  std::function<std::string(const remote::NodeSpec&)> why_lost = {};
  // Why the place that made the nodes has taken all of them back, as Provider::cause_of_end() has
  // it; "": it has not. Null: as above.
  std::function<std::string()> why_ended = {};
  std::optional<TimePoint> nodes_end = {};  // when it takes the first of them back, if known
  // Until then, by the clock above.
  std::optional<std::int64_t> nodes_left_ms() const {
    if (!nodes_end) return std::nullopt;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(*nodes_end - clock.now());
    return std::max<std::int64_t>(left.count(), 0);
  }
  // The help text of a command, or of the program for "".
  std::function<Result<std::string>(const std::string& command)> help = {};
};

// The same context with another console.
Context with_console(const Context& context, Console& console);

// Shows a provider's work on the console.
ProviderWork work_of(Context& context);

}  // namespace paddle::cli
