#include "cli/cluster/journal.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "cli/console/json.h"

namespace paddle::cli {
namespace {

constexpr const char* kOfNoJob = "nodes.jsonl";
constexpr std::size_t kJobBytesMax = 240;  // with ".jsonl" it fits in a file name

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%FT%TZ", &parts)};
}

Status make_private_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return system_error(Errc::kResource, "make " + folder);
}

}  // namespace

Journal::Journal(std::string folder, std::function<void(const Error&)> complain)
    : folder_(std::move(folder)), complain_(std::move(complain)), who_(user_at_machine()) {}

std::string Journal::path_of(const std::string& job) const {
  // Nodes report the names of jobs, and may report any text.
  const bool is_file_name = !job.empty() && job.size() <= kJobBytesMax && !job.starts_with('.') &&
                            job.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (!is_file_name) return folder_ + "/" + kOfNoJob;
  return fmt::format("{}/jobs/{}.jsonl", folder_, job);
}

Status Journal::append(const std::string& path, const std::string& line) const {
  PADDLE_TRY_STATUS(make_private_folder(folder_));
  PADDLE_TRY_STATUS(make_private_folder(folder_ + "/jobs"));
  // Without O_NONBLOCK, open() would block on a pipe that has no reader.
  const UniqueFd file(::open(
      path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) {
    return system_error(Errc::kResource, "open " + path);
  }
  if (!S_ISREG(info.st_mode)) return Error{Errc::kResource, path + " is not a regular file", ""};
  for (std::string_view left = line; !left.empty();) {
    const ssize_t put = ::write(file.get(), left.data(), left.size());
    if (put < 0) return system_error(Errc::kResource, "write " + path);
    left.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

void Journal::add(const std::string& job, const remote::NodeSpec& node, std::string_view action,
                  int exit_code) const {
  if (folder_.empty()) return;
  // The JSON writer escapes control characters in the names of nodes and programs.
  const std::string line = Json::object({{"time", time_now()},
                                         {"who", who_},
                                         {"pid", ::getpid()},
                                         {"node", node.name},
                                         {"folder", node.root},
                                         {"action", std::string(action)},
                                         {"exit", exit_code}})
                               .text() +
                           "\n";
  const Status written = append(path_of(job), line);
  if (!written && !complained_.exchange(true)) complain_(written.error());
}

std::string user_at_machine() {
  char machine[256] = "";
  ::gethostname(machine, sizeof machine - 1);
  const passwd* const user = ::getpwuid(::geteuid());
  return fmt::format("{}@{}", user ? user->pw_name : std::to_string(::geteuid()), machine);
}

std::string journal_folder() {
  const char* const state = ::getenv("XDG_STATE_HOME");
  const char* const home = ::getenv("HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/paddlectl";
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/state/paddlectl" : "";
}

// An agent client that records its calls in the journal.
namespace {

using namespace remote;  // NOLINT: the rest is about the client's calls

constexpr std::string_view kJobs = "jobs/";
constexpr int kSignalBase = 128;  // a shell's exit code after a signal

int exit_of(const Status& done) {
  return done ? 0 : static_cast<int>(done.error().code);
}
template <class Value>
int exit_of(const Result<Value>& done) {
  return done ? 0 : static_cast<int>(done.error().code);
}
int exit_of(const Result<CommandEnd>& end) {
  if (!end) return static_cast<int>(end.error().code);
  return end->signal != 0 ? kSignalBase + end->signal : end->exit_code;
}

// "jobs/first/output" -> "first"; "" for a path that is not below jobs/.
std::string job_of(std::string_view path) {
  if (!path.starts_with(kJobs)) return "";
  path.remove_prefix(kJobs.size());
  return std::string(path.substr(0, path.find('/')));
}

std::string names_of(const std::vector<std::string>& names) {
  return names.empty() ? "all" : fmt::format("{}", fmt::join(names, " "));
}

class JournalledClient final : public AgentClient {
 public:
  JournalledClient(std::unique_ptr<AgentClient> client, const Journal& journal)
      : client_(std::move(client)), journal_(journal) {}

  const NodeSpec& node() const override { return client_->node(); }
  void set_patience(Duration patience) override { client_->set_patience(patience); }
  void set_interrupted(const std::function<bool()>& interrupted) override {
    client_->set_interrupted(interrupted);
  }
  Result<HostFacts> facts() override { return client_->facts(); }
  Result<PushStats> push(const std::vector<PushItem>& items, PushSource& source,
                         const PushProgress& progress, const std::string& keep_only) override {
    const std::string place =
        !keep_only.empty() || items.empty() ? keep_only : items.front().remote_path;
    return note(job_of(place), fmt::format("push {} files", items.size()),
                client_->push(items, source, progress, keep_only));
  }
  Result<std::vector<FileEntry>> list(const std::string& folder) override {
    return client_->list(folder);
  }
  Result<std::vector<FileEntry>> list_sizes(const std::string& folder) override {
    return client_->list_sizes(folder);
  }
  Result<std::vector<FileEntry>> list_all_kinds(const std::string& folder) override {
    return client_->list_all_kinds(folder);
  }
  Result<std::vector<FileEntry>> list_own_files(const std::string& folder) override {
    return client_->list_own_files(folder);
  }
  Status fetch(const std::vector<FetchItem>& items) override {
    return note(items.empty() ? "" : job_of(items.front().remote_path),
                fmt::format("fetch {} files", items.size()), client_->fetch(items));
  }
  Status remove(const std::string& path) override {
    return note(job_of(path), "remove " + path, client_->remove(path));
  }
  Status move(const std::string& from, const std::string& to) override {
    return note(job_of(from), fmt::format("move {} to {}", from, to), client_->move(from, to));
  }
  Result<std::vector<JobClaim>> claim_job(const WantedClaim& wanted) override {
    return client_->claim_job(wanted);
  }
  Status release_job(const std::string& job) override { return client_->release_job(job); }
  Status write_keys(const std::string& job, const std::string& process, ByteSpan keys) override {
    return note(job, "write the keys of " + process, client_->write_keys(job, process, keys));
  }
  Result<std::vector<PortStatus>> check_ports(const std::string& address, std::uint16_t first,
                                              std::uint16_t count) override {
    return client_->check_ports(address, first, count);
  }
  Result<std::vector<PortStatus>> claim_ports(const std::string& address, std::uint16_t first,
                                              std::uint16_t count) override {
    return client_->claim_ports(address, first, count);
  }
  Status started() override { return client_->started(); }
  Result<Leftovers> leftovers() override { return client_->leftovers(); }
  Status listen_for_probes(const std::string& address, std::uint16_t port,
                           const Secret& token) override {
    return note("", fmt::format("listen for probes on port {}", port),
                client_->listen_for_probes(address, port, token));
  }
  Status stop_listening() override { return client_->stop_listening(); }
  Result<ProbeResult> probe(const std::string& address, std::uint16_t port, const Secret& token,
                            std::uint32_t caller) override {
    return note("", fmt::format("probe {}, port {}", address, port),
                client_->probe(address, port, token, caller));
  }
  Status start(const ProcessSpec& process) override {
    return note(process.job, "start " + process.name, client_->start(process));
  }
  Status restart(const std::string& job, const std::vector<std::string>& names) override {
    return note(job, "restart " + names_of(names), client_->restart(job, names));
  }
  Result<std::vector<ProcessStatus>> processes(const std::string& job) override {
    return client_->processes(job);
  }
  Result<NodeStatus> status(const std::string& job) override { return client_->status(job); }
  Status stop(const std::string& job, const std::vector<std::string>& names,
              Duration grace) override {
    return note(job, "end " + names_of(names), client_->stop(job, names, grace));
  }
  Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) override {
    return note(job, "ask to stop " + names_of(names), client_->ask_to_stop(job, names));
  }
  Result<FilePart> read_file(const std::string& path, std::uint64_t offset, std::uint32_t max_bytes,
                             std::int64_t since_unix_ms) override {
    return client_->read_file(path, offset, max_bytes, since_unix_ms);
  }
  Result<CommandEnd> run(const CommandSpec& command, const CommandOutput& output,
                         const std::function<bool()>& interrupted) override {
    // Arguments may hold a password.
    return note("", "run " + (command.arguments.empty() ? "" : command.arguments.front()),
                client_->run(command, output, interrupted));
  }
  Result<CopyStats> export_to(const CopyTree& tree, const std::string& inside,
                              const std::string& outside) override {
    return note("", "put " + outside, client_->export_to(tree, inside, outside));
  }
  Result<CopyStats> import_from(const std::string& outside, const std::string& inside,
                                CopyTree& tree) override {
    return note("", "get " + outside, client_->import_from(outside, inside, tree));
  }
  Result<TeardownReport> teardown(bool keep_data) override {
    return note("", keep_data ? "teardown, keeping data" : "teardown",
                client_->teardown(keep_data));
  }

 private:
  template <class Outcome>
  Outcome note(const std::string& job, std::string_view action, Outcome outcome) {
    journal_.add(job, node(), action, exit_of(outcome));
    return outcome;
  }

  std::unique_ptr<AgentClient> client_;
  const Journal& journal_;
};

}  // namespace

std::unique_ptr<AgentClient> with_journal(std::unique_ptr<AgentClient> client,
                                          const Journal& journal) {
  return std::make_unique<JournalledClient>(std::move(client), journal);
}

}  // namespace paddle::cli
