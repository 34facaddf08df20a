#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/journal.h"

namespace paddle::cli {
namespace {

using namespace remote;  // NOLINT: this file is about the client's calls

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

// "jobs/first/output" -> "first"; "" for a path that is no job's.
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
    return note(job_of(keep_only), fmt::format("push {} files", items.size()),
                client_->push(items, source, progress, keep_only));
  }
  Result<std::vector<FileEntry>> list(const std::string& folder) override {
    return client_->list(folder);
  }
  Result<std::vector<FileEntry>> list_sizes(const std::string& folder) override {
    return client_->list_sizes(folder);
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
  Result<LogChunk> read_log(const std::string& path, std::uint64_t offset, std::uint32_t max_bytes,
                            std::int64_t since_unix_ms) override {
    return client_->read_log(path, offset, max_bytes, since_unix_ms);
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
