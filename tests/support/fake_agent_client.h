// A node in memory behind remote::AgentClient: files, logs and processes that a test scripts.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text.h"
#include "proto/agent.pb.h"
#include "remote/client/agent_client.h"

namespace paddle::remote {

struct FakeClaim {
  const void* session = nullptr;
  std::string job;
  JobClaim claim;
  bool is_revoked = false;
  JobClaim revoked_by = {};
};

struct GpuNames {
  std::string model, uuid;
};
inline void set_gpus(wire::agent::Facts& facts, const std::vector<GpuNames>& gpus) {
  facts.clear_gpus();
  for (const GpuNames& one : gpus) {
    wire::agent::Gpu& gpu = *facts.add_gpus();
    gpu.set_model(one.model);
    gpu.set_uuid(one.uuid);
  }
}

struct FakeNode {
  std::mutex mutex;
  std::map<std::string, std::string> files;            // by path below root
  std::set<std::string> executable;                    // paths in `files`
  std::vector<FileEntry> other_kinds;                  // by path below root; no regular files
  std::map<std::string, std::uint64_t> claimed_sizes;  // in place of the files' own
  std::map<std::string, std::vector<LogTime>> times;   // of logs, by path
  std::map<std::string, std::uint64_t> first_offsets;  // likewise; what is before was rotated away
  std::string os = "Debian GNU/Linux 12";
  std::vector<GpuNames> gpus;
  std::uint64_t disk_free_bytes = 50'000'000'000;
  std::string glibc = "2.36", nccl_library = "2.28.3";
  // Its unix_ms is the time by which processes report and end; someone may set the wall's clock.
  NodeUsage usage{.unix_ms = 1'000'000, .memory_available_bytes = 4'000'000'000};
  std::int64_t clock_set_ms = 0;  // by so much
  wire::agent::LeftoversReply left;
  std::map<std::string, ProbeResult> probes;  // by address:port; others are reached
  std::vector<std::string> probed;            // address:port, as asked
  std::vector<ProcessStatus> processes;
  std::map<std::string, ProcessSpec> specs;     // by process name
  std::map<std::string, std::uint32_t> starts;  // by job/process
  std::map<std::uint16_t, std::string> taken_ports;
  std::vector<std::string> remaining;  // paths that teardown fails to remove
  // Faults of copies: files that vanish, entries that are no files, a size in place of the
  // file's own, and entries that were not asked for.
  std::uint64_t gone = 0;
  std::vector<std::string> left_out, unreadable;
  std::optional<std::uint64_t> claimed_size;
  CopyTree more_copied;
  std::vector<TreeEntry> exported;  // by copies
  CopyTree copied;                  // of a path that `files` lacks; a file's content is its number
  std::vector<FetchItem> fetched;   // by the last fetch, without the open folders
  bool hashes = false;              // lists files with their SHA-256
  std::string claimed_job;          // the last one, to start processes
  std::vector<FakeClaim> claims;
  std::optional<Error> claim_error;  // of every claim
  std::optional<Error> push_error;   // of every push
  // Processes that another paddlectl starts, and their ports.
  std::set<std::string> starting;
  std::set<std::uint16_t> claimed_ports;
  std::set<std::uint16_t> own_claims;  // ports that the test's paddlectl has claimed
  NodeIdentity identity;
  bool unreachable = false;
  bool torn_down = false;
  int torn_down_after = 0;  // so many calls of processes(), by somebody else; 0: never
  int breaks_after = 0;     // so many calls of processes(): that one finds the connection broken
  bool breaks_at_stop = false;  // the first stop() finds the connection broken
  int next_pid = 100;
  int asked_exit = 75;  // with what a process ends that is asked to stop; -1: it goes on
  int ended_exit = 0;   // with what a process ends that stop() ends
  std::function<Result<CommandEnd>(const CommandSpec&, const CommandOutput&)> on_run;
  bool run_is_interrupted = false;  // after its output
  bool copies_end_with_interrupts = false;
  std::function<void(FakeNode&)> on_claim;      // with the lock held
  std::function<void(FakeNode&)> on_read_file;  // with the lock held
  // Called with the lock held when a process starts: may append to its log or end it.
  std::function<void(FakeNode&, ProcessStatus&)> on_start;
};

class FakeAgentClient : public AgentClient {
 public:
  FakeAgentClient(NodeSpec spec, FakeNode& fake) : spec_(std::move(spec)), fake_(fake) {}
  ~FakeAgentClient() override { (void)started(); }
  FakeAgentClient(const FakeAgentClient&) = delete;
  FakeAgentClient& operator=(const FakeAgentClient&) = delete;

  const NodeSpec& node() const override { return spec_; }

  Result<wire::agent::Facts> facts() override {
    wire::agent::Facts facts;
    facts.set_os(fake_.os);
    set_gpus(facts, fake_.gpus);
    facts.set_glibc(fake_.glibc);
    facts.set_nccl_library(fake_.nccl_library);
    facts.set_architecture("x86_64");
    facts.set_processor("Fake CPU @ 2.00GHz");
    facts.set_utc_offset_s(3600);
    facts.set_agent_version("1.2.3");
    facts.set_cores(4);
    facts.set_memory_bytes(8'000'000'000);
    facts.set_disk_free_bytes(fake_.disk_free_bytes);
    facts.set_address("10.0.0.1");
    const auto add_interface = [&](const std::string& address, const std::string& name) {
      wire::agent::Interface& one = *facts.add_interfaces();
      one.set_address(address);
      one.set_name(name);
    };
    add_interface("127.0.0.1", "lo");
    add_interface("10.0.0.1", "eth1");
    facts.set_root("/nonexistent/fake/" + spec_.name);
    return facts;
  }

  using AgentClient::push;
  Result<PushStats> push(const std::vector<PushItem>& items, PushSource&,
                         const PushProgress& progress, const std::string&) override {
    const std::lock_guard lock(fake_.mutex);
    if (fake_.push_error) return *fake_.push_error;
    PushStats stats;
    for (const PushItem& item : items) {
      std::ifstream file(item.local_path, std::ios::binary);
      const bool has_file = !item.content || !item.local_path.empty();
      if (has_file && !file) return Error{Errc::kData, "no file " + item.local_path, ""};
      std::ostringstream content;
      if (item.content)
        content << *item.content;
      else
        content << file.rdbuf();
      ++stats.files;
      auto& stored = fake_.files[item.remote_path];
      if (stored == content.str() && !stored.empty()) continue;
      stored = content.str();
      ++stats.files_sent;
      stats.bytes_sent += stored.size();
      if (progress && !progress(stored.size(), stored.size()))
        return Error{Errc::kInterrupted, "broken off", ""};
    }
    return stats;
  }

  Result<std::vector<FileEntry>> list_sizes(const std::string& folder) override {
    return list(folder);
  }
  // Without `hashes` SHA-256 is left empty: a fetch then always transfers.
  Result<std::vector<FileEntry>> list(const std::string& folder) override {
    const std::lock_guard lock(fake_.mutex);
    if (fake_.unreachable) return Error{Errc::kUnreachable, "node " + spec_.name + ": gone", ""};
    std::vector<FileEntry> entries;
    for (const auto& [path, content] : fake_.files) {
      if (!path.starts_with(folder + "/")) continue;
      const auto claimed = fake_.claimed_sizes.find(path);
      entries.push_back({path.substr(folder.size() + 1),
                         claimed == fake_.claimed_sizes.end() ? content.size() : claimed->second,
                         fake_.hashes ? to_hex(sha256_of(as_bytes(content))) : "",
                         fake_.executable.contains(path)});
    }
    return entries;
  }

  Result<std::vector<FileEntry>> list_all_kinds(const std::string& folder) override {
    PADDLE_TRY(auto entries, list(folder));
    for (FileEntry entry : fake_.other_kinds) {
      if (!entry.path.starts_with(folder + "/")) continue;
      entry.path.erase(0, folder.size() + 1);
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  Result<std::vector<FileEntry>> list_own_files(const std::string& folder) override {
    PADDLE_TRY(auto entries, list(folder));
    std::erase_if(entries,
                  [](const auto& entry) { return entry.path.find('/') != std::string::npos; });
    return entries;
  }

  void set_interrupted(const std::function<bool()>& interrupted) override {
    fake_.copies_end_with_interrupts = bool(interrupted);
  }
  Status fetch(const std::vector<FetchItem>& items) override {
    const std::lock_guard lock(fake_.mutex);
    fake_.fetched = items;
    for (FetchItem& item : fake_.fetched) item.folder.reset();
    for (const FetchItem& item : items) {
      const std::string folder =
          item.folder ? fmt::format("/proc/self/fd/{}/", item.folder->get()) : "";
      std::ofstream file(folder + item.local_path, std::ios::binary);
      if (!file) return Error{Errc::kResource, "create " + item.local_path, ""};
      file << fake_.files[item.remote_path];
    }
    return {};
  }

  Status remove(const std::string& path) override {
    const std::lock_guard lock(fake_.mutex);
    std::erase_if(fake_.files, [&](const auto& f) {
      return f.first == path || f.first.starts_with(path + "/");
    });
    // A node's records of processes are files of their job.
    std::erase_if(fake_.processes, [&](const ProcessStatus& process) {
      return path == "jobs/" + process.job || path == "jobs/" + process.job + "/proc";
    });
    return {};
  }

  Status move(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(fake_.mutex);
    const auto files = fake_.files;
    for (const auto& [path, content] : files) {
      if (path != from && !path.starts_with(from + "/")) continue;
      if (fake_.files.contains(to + path.substr(from.size())))
        return Error{Errc::kResource, "move " + from + ": file exists", ""};
      fake_.files.erase(path);
      fake_.files[to + path.substr(from.size())] = content;
    }
    return {};
  }

  // As agent::Claims, but without its wait.
  Result<std::vector<JobClaim>> claim_job(const WantedClaim& wanted) override {
    const std::lock_guard lock(fake_.mutex);
    if (fake_.unreachable || fake_.torn_down)
      return Error{Errc::kUnreachable, "node " + spec_.name + ": gone", ""};
    if (fake_.claim_error) return *fake_.claim_error;
    const std::string& job = wanted.job;
    if (const Status valid = check_claim(job); !valid) {
      if (starts_processes(wanted.claim.command)) return valid.error();
      forget_claim(job);
    }
    std::vector<JobClaim> in_the_way;
    if (fake_.starting.contains(job)) in_the_way.push_back({JobCommand::kTrain, "bob@desk, pid 7"});
    for (const FakeClaim& held : fake_.claims) {
      if (held.job == job && held.session != this && !held.is_revoked)
        in_the_way.push_back(held.claim);
    }
    const auto order = [&](const JobClaim& other) {
      return order_of(other.command, wanted.claim.command);
    };
    std::erase_if(in_the_way, [&](const JobClaim& other) {
      return order(other) == Order::kBeside || order(other) == Order::kOver;
    });
    if (!in_the_way.empty()) return in_the_way;
    for (const ProcessStatus& process : fake_.processes) {
      const bool is_running = process.state == ProcessState::kRunning;
      if (process.job == job && (wanted.fresh || (wanted.idle && is_running)))
        return Error{Errc::kUsage, "a job named '" + job + "' already exists", ""};
    }
    if (fake_.on_claim) fake_.on_claim(fake_);
    forget_claim(job);
    for (FakeClaim& held : fake_.claims) {
      if (held.job == job && order(held.claim) == Order::kOver) {
        held.is_revoked = true;
        held.revoked_by = wanted.claim;
      }
    }
    fake_.claims.push_back({this, job, wanted.claim});
    if (starts_processes(wanted.claim.command)) fake_.claimed_job = job;
    return in_the_way;
  }
  Status release_job(const std::string& job) override {
    const std::lock_guard lock(fake_.mutex);
    forget_claim(job);
    return {};
  }
  Status write_keys(const std::string& job, const std::string& process, ByteSpan keys) override {
    const std::lock_guard lock(fake_.mutex);
    fake_.files[fmt::format("jobs/{}/keys/{}", job, process)] = std::string(as_text(keys));
    return {};
  }
  Result<std::vector<PortStatus>> claim_ports(const std::string& address, std::uint16_t first,
                                              std::uint16_t count) override {
    PADDLE_TRY(auto ports, check_ports(address, first, count));
    const std::lock_guard lock(fake_.mutex);
    for (PortStatus& port : ports) {
      port.claimed = fake_.claimed_ports.contains(port.port);
      if (port.claimed) port.free = false;
      if (port.free) fake_.own_claims.insert(port.port);
    }
    return ports;
  }
  Status started() override {
    const std::lock_guard lock(fake_.mutex);
    std::erase_if(fake_.claims, [&](const FakeClaim& held) { return held.session == this; });
    return {};
  }

  Result<std::vector<PortStatus>> check_ports(const std::string&, std::uint16_t first,
                                              std::uint16_t count) override {
    const std::lock_guard lock(fake_.mutex);
    std::vector<PortStatus> ports;
    for (std::uint16_t i = 0; i < count; ++i) {
      const auto port = static_cast<std::uint16_t>(first + i);
      const auto taken = fake_.taken_ports.find(port);
      ports.push_back({port, taken == fake_.taken_ports.end(),
                       taken == fake_.taken_ports.end() ? "" : taken->second});
    }
    return ports;
  }

  Result<wire::agent::LeftoversReply> leftovers() override { return fake_.left; }
  Status listen_for_probes(const std::string&, std::uint16_t port, const Secret&) override {
    const std::lock_guard lock(fake_.mutex);
    fake_.taken_ports[port] = "the check itself";
    return {};
  }
  Status stop_listening() override {
    const std::lock_guard lock(fake_.mutex);
    std::erase_if(fake_.taken_ports,
                  [](const auto& port) { return port.second == "the check itself"; });
    return {};
  }
  Result<ProbeResult> probe(const std::string& address, std::uint16_t port, const Secret&,
                            std::uint32_t) override {
    const std::lock_guard lock(fake_.mutex);
    const std::string target = address + ":" + std::to_string(port);
    fake_.probed.push_back(target);
    const auto scripted = fake_.probes.find(target);
    if (scripted != fake_.probes.end()) return scripted->second;
    return ProbeResult{ProbeOutcome::kReached, "", std::chrono::microseconds(150), 1'000'000'000};
  }

  Status start(const ProcessSpec& process) override {
    const std::lock_guard lock(fake_.mutex);
    if (Status valid = check_claim(process.job); !valid) return valid;
    ProcessStatus status;
    status.incarnation = ++fake_.starts[process.job + "/" + process.name];
    status.job = process.job;
    status.name = process.name;
    status.log = process.log;
    status.arguments = process.arguments;
    status.trainers = process.trainers;
    status.pservers = process.pservers;
    status.restarts_allowed = process.restarts;
    status.run = process.run;
    status.ports = process.ports;
    status.state = ProcessState::kRunning;
    status.pid = fake_.next_pid++;
    status.started_unix_ms = status.pid;
    fake_.specs[process.name] = process;
    if (fake_.on_start) fake_.on_start(fake_, status);
    // A node has one record of a process: that of its newest run.
    std::erase_if(fake_.processes, [&](const ProcessStatus& before) {
      return before.job == status.job && before.name == status.name;
    });
    fake_.processes.push_back(status);
    return {};
  }

  Status restart(const std::string& job, const std::vector<std::string>& names) override {
    std::vector<ProcessSpec> specs;
    {
      const std::lock_guard lock(fake_.mutex);
      if (Status valid = check_claim(job); !valid) return valid;
      for (const std::string& name : names) {
        specs.push_back(fake_.specs[name]);
        std::erase_if(fake_.processes, [&](const ProcessStatus& status) {
          return status.job == job && status.name == name;
        });
      }
    }
    for (const ProcessSpec& spec : specs) PADDLE_TRY_STATUS(start(spec));
    return {};
  }

  Result<std::vector<ProcessStatus>> processes(const std::string& job) override {
    const std::lock_guard lock(fake_.mutex);
    if (fake_.torn_down_after > 0 && --fake_.torn_down_after == 0) {
      fake_.torn_down = true;
      fake_.processes.clear();
    }
    const bool breaks = fake_.breaks_after > 0 && --fake_.breaks_after == 0;
    if (fake_.unreachable || fake_.torn_down || breaks)
      return Error{Errc::kUnreachable, "node " + spec_.name + ": gone", ""};
    std::vector<ProcessStatus> found;
    for (const ProcessStatus& status : fake_.processes) {
      if (!job.empty() && status.job != job) continue;
      found.push_back(status);
      found.back().asked_unix_ms = fake_.usage.unix_ms + fake_.clock_set_ms;
      if (status.progress) found.back().silent_ms = fake_.usage.unix_ms - status.progress->unix_ms;
      for (Restart& restart : found.back().restarts)
        restart.age_ms = fake_.usage.unix_ms - restart.ended_unix_ms;
      for (const FakeClaim& held : fake_.claims) {
        if (held.job == status.job && !held.is_revoked) found.back().claims.push_back(held.claim);
      }
      found.back().claimed =
          fake_.starting.contains(status.job) ||
          std::any_of(found.back().claims.begin(), found.back().claims.end(),
                      [](const JobClaim& claim) { return starts_processes(claim.command); });
    }
    return found;
  }

  NodeIdentity identity() const override { return fake_.identity; }

  Result<NodeStatus> status(const std::string& job) override {
    PADDLE_TRY(auto found, processes(job));
    const std::lock_guard lock(fake_.mutex);
    NodeUsage usage = fake_.usage;
    usage.unix_ms += fake_.clock_set_ms;
    return NodeStatus{std::move(found), usage};
  }

  // The session that asks for a stop, as an agent knows it by the claim.
  std::string stopper(const std::string& job) const {
    for (const FakeClaim& held : fake_.claims) {
      if (held.session == this && held.job == job)
        return fmt::format("paddlectl {} of {}", name_of(held.claim.command), held.claim.who);
    }
    return "";
  }
  Status stop(const std::string& job, const std::vector<std::string>&, Duration) override {
    const std::lock_guard lock(fake_.mutex);
    if (std::exchange(fake_.breaks_at_stop, false))
      return Error{Errc::kUnreachable, "node " + spec_.name + ": gone", ""};
    for (ProcessStatus& status : fake_.processes) {
      if (status.job != job || status.state != ProcessState::kRunning) continue;
      status.state = ProcessState::kExited;
      status.exit_code = fake_.ended_exit;
      status.ended_unix_ms = 9'000'000;
      status.stop_ordered = true;
      status.stopped_by = stopper(job);
    }
    return {};
  }

  Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) override {
    const std::lock_guard lock(fake_.mutex);
    for (ProcessStatus& status : fake_.processes) {
      if (status.job != job || status.state != ProcessState::kRunning || fake_.asked_exit < 0)
        continue;
      if (std::find(names.begin(), names.end(), status.name) == names.end()) continue;
      status.state = ProcessState::kExited;
      status.stopped_by = stopper(job);
      status.exit_code = fake_.asked_exit;
      status.stopped =
          fake_.asked_exit == 0 || fake_.asked_exit == static_cast<int>(Errc::kResumable);
      status.ended_unix_ms = 8'000'000;
    }
    return {};
  }

  Result<FilePart> read_file(const std::string& path, std::uint64_t offset, std::uint32_t max_bytes,
                             std::int64_t since_unix_ms) override {
    const std::lock_guard lock(fake_.mutex);
    if (fake_.on_read_file) fake_.on_read_file(fake_);
    const auto found = fake_.files.find(path);
    if (found == fake_.files.end()) return Error{Errc::kData, "no file " + path, ""};
    FilePart part;
    part.size = found->second.size();
    part.times = fake_.times[path];
    offset = std::max(offset, fake_.first_offsets[path]);
    for (const LogTime& time : part.times) {
      if (time.unix_ms < since_unix_ms) offset = part.size;
      if (time.unix_ms >= since_unix_ms && since_unix_ms > 0) {
        offset = std::max(offset == part.size ? 0 : offset, time.offset);
        break;
      }
    }
    if (offset < part.size) part.data = found->second.substr(offset, max_bytes);
    part.next_offset = offset + part.data.size();
    return part;
  }

  Result<CommandEnd> run(const CommandSpec& command, const CommandOutput& output,
                         const std::function<bool()>& interrupted) override {
    if (!fake_.on_run) return CommandEnd{};
    auto end = fake_.on_run(command, output);
    fake_.run_is_interrupted = interrupted && interrupted();
    return end;
  }

  // Files outside our folder are in `files` under their absolute path.
  Result<wire::agent::CopyReply> export_to(const CopyTree& tree, const std::string& inside,
                                           const std::string& outside) override {
    const std::lock_guard lock(fake_.mutex);
    wire::agent::CopyReply reply;
    for (const CopiedEntry& copied : tree) {
      fake_.exported.push_back(copied.entry);
      if (copied.entry.kind != TreeEntry::Kind::kFile) continue;
      const std::string& content = fake_.files[fmt::format("{}/{}", inside, copied.number)];
      fake_.files[outside + (outside.ends_with('/') ? "" : "/") + copied.entry.path] = content;
      reply.set_files(reply.files() + 1);
      reply.set_bytes(reply.bytes() + content.size());
    }
    return reply;
  }
  Result<wire::agent::CopyReply> import_from(const std::string& outside, const std::string& inside,
                                             CopyTree& tree) override {
    const std::lock_guard lock(fake_.mutex);
    wire::agent::CopyReply reply;
    const auto found = fake_.files.find(outside);
    if (found == fake_.files.end() && !fake_.copied.empty()) {
      tree = fake_.copied;
      for (const CopiedEntry& copied : tree) {
        if (copied.entry.kind == TreeEntry::Kind::kFile)
          fake_.files[fmt::format("{}/{}", inside, copied.number)] = std::to_string(copied.number);
      }
      reply.set_files(tree.size());
      return reply;
    }
    if (found == fake_.files.end())
      return Error{Errc::kFailed, "node " + spec_.name + ": read " + outside + ": no such file",
                   ""};
    const std::string content = found->second;
    fake_.files[inside + "/1"] = content;
    TreeEntry entry{outside.substr(outside.rfind('/') + 1),
                    TreeEntry::Kind::kFile,
                    0644,
                    0,
                    fake_.claimed_size.value_or(content.size()),
                    ""};
    tree.push_back({entry, 1, to_hex(sha256_of(as_bytes(content)))});
    for (const CopiedEntry& more : fake_.more_copied) {
      tree.push_back(more);
      fake_.files[fmt::format("{}/{}", inside, more.number)] = "a lie";
    }
    reply.set_files(1);
    reply.set_bytes(content.size());
    reply.set_gone(fake_.gone);
    for (const std::string& name : fake_.left_out) reply.add_left_out_names(name);
    reply.set_left_out(fake_.left_out.size());
    for (const std::string& name : fake_.unreadable) reply.add_unreadable_names(name);
    reply.set_unreadable(fake_.unreadable.size());
    return reply;
  }

  Result<wire::agent::TeardownReply> teardown(bool) override {
    const std::lock_guard lock(fake_.mutex);
    wire::agent::TeardownReply reply;
    reply.set_processes_ended(fake_.processes.size());
    reply.set_files_removed(fake_.files.size());
    for (const std::string& path : fake_.remaining) reply.add_remaining(path);
    fake_.processes.clear();
    fake_.files.clear();
    fake_.torn_down = true;
    return reply;
  }

 protected:
  FakeNode& fake() { return fake_; }

 private:
  // With the lock held.
  Status check_claim(const std::string& job) const {
    for (const FakeClaim& held : fake_.claims) {
      if (held.session == this && held.job == job && held.is_revoked)
        return Error{Errc::kFailed,
                     fmt::format("job {} was ended by paddlectl {} of {}", job,
                                 name_of(held.revoked_by.command), held.revoked_by.who),
                     ""};
    }
    return {};
  }
  void forget_claim(const std::string& job) {
    std::erase_if(fake_.claims,
                  [&](const FakeClaim& held) { return held.session == this && held.job == job; });
  }

  NodeSpec spec_;
  FakeNode& fake_;
};

}  // namespace paddle::remote
