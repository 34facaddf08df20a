// Calls whose answers arrive in parts: access to the files of a node, and a user's command on the
// node for `paddlectl exec`, which ends with the channel.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/tree.h"

namespace paddle::wire::agent {
class CopyReply;
}  // namespace paddle::wire::agent

namespace paddle::remote {

class Exchange;

struct FileEntry {
  // kOddName: a name with control characters; `path` has them escaped.
  enum class Kind { kFile, kLink, kEmptyFolder, kOddName };

  std::string path;  // below the listed folder
  std::uint64_t size = 0;
  std::string sha256;  // hex
  bool executable = false;
  Kind kind = Kind::kFile;
  std::string link = {};  // the target of a link
};

// The first `size` bytes of a file, with the size and hash that a list returned.
struct FetchItem {
  std::string remote_path;  // below root
  std::string local_path;   // below `folder`; its parent folder exists
  std::uint64_t size = 0;
  std::string sha256;  // hex
  // The open folder for local_path, which is reached without following a link. Null: local_path is
  // any path.
  std::shared_ptr<const UniqueFd> folder = {};
  std::optional<std::uint32_t> mode = {};     // nothing: 0644 or 0755, reduced by the umask
  std::optional<std::int64_t> mtime_ns = {};  // nothing: the time of the fetch
  bool executable = false;
};

// An entry of a copy between our folder and the rest of a node. The content of a file is in our
// folder, under its number.
struct CopiedEntry {
  TreeEntry entry;
  std::uint32_t number = 0;
  std::string sha256 = {};  // hex, of a file from import_from()
};
using CopyTree = std::vector<CopiedEntry>;  // each folder precedes its entries
// Whether the name is that of a temporary file of a fetch, which is incomplete.
bool is_part_of_fetch(std::string_view name);

// Implements AgentClient's calls of the same names.
class NodeFiles {
 public:
  explicit NodeFiles(Exchange& exchange) : exchange_(exchange) {}
  void set_interrupted(const std::function<bool()>& interrupted) { interrupted_ = interrupted; }

  enum class Listed { kAll, kSizesOfAll, kAllKinds, kOwnFiles };
  Result<std::vector<FileEntry>> list(const std::string& folder, Listed listed);
  Status fetch(const std::vector<FetchItem>& items);
  Result<wire::agent::CopyReply> export_to(const CopyTree& tree, const std::string& inside,
                                           const std::string& outside);
  Result<wire::agent::CopyReply> import_from(const std::string& outside, const std::string& inside,
                                             CopyTree& tree);

 private:
  Status fetch_one(const FetchItem& item);
  Status receive_file(const FetchItem& item, int fd, Status& written);

  Exchange& exchange_;
  std::function<bool()> interrupted_;
};

struct CommandSpec {
  std::vector<std::string> arguments;  // argv; no shell interprets it
  Duration timeout{};                  // zero: none; after it SIGTERM, then SIGKILL after a grace
  std::map<std::string, std::string> environment = {};  // overrides the node's
};
struct CommandEnd {
  int exit_code = 0;
  int signal = 0;  // 0: exited
  bool timed_out = false;
  std::string next_step = {};  // for a file that exists and cannot be executed
};
// Receives output as it arrives, on one thread of its own: untrusted bytes.
using CommandOutput = std::function<void(std::string_view text, bool is_stderr)>;

constexpr Duration kInterruptedEvery = std::chrono::milliseconds(100);

// kUsage: the command does not fit into one request.
Status check_size(const CommandSpec& command);

// Implements AgentClient::run().
Result<CommandEnd> run_command(Exchange& exchange, const CommandSpec& command,
                               const CommandOutput& output,
                               const std::function<bool()>& interrupted);

}  // namespace paddle::remote
