#include "remote/agent_client.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/sha256.h"
#include "engine/base/text.h"
#include "proto/agent.pb.h"
#include "proto/frame_stream.h"
#include "remote/agent_exchange.h"
#include "remote/bootstrap.h"

namespace paddle::remote {
namespace {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

constexpr Duration kCallDeadline = std::chrono::seconds(30);
// Hashing or walking a large folder on a slow disk.
constexpr Duration kDiskDeadline = std::chrono::minutes(10);
// Beyond the grace: what the agent needs to end supervisors and to look again.
constexpr Duration kStopDeadline = std::chrono::seconds(60);
constexpr Duration kTeardownDeadline = std::chrono::minutes(5);
constexpr int kChunksInFlight = 16;  // unacknowledged, 256 KiB each

wire::agent::FileEntry entry_of(const PushItem& item, std::uint64_t size,
                                const Sha256Digest& digest) {
  wire::agent::FileEntry entry;
  entry.set_path(item.remote_path);
  entry.set_size(size);
  entry.set_sha256(std::string(as_text(digest)));
  entry.set_executable(item.executable);
  return entry;
}

Result<wire::agent::FileEntry> describe(const PushItem& item) {
  struct stat info {};
  if (::stat(item.local_path.c_str(), &info) != 0) {
    return system_error(Errc::kData, "read " + item.local_path);
  }
  if (!S_ISREG(info.st_mode)) {
    return Error{Errc::kData, item.local_path + " is not a regular file", ""};
  }
  PADDLE_TRY(const Sha256Digest digest, sha256_of_file(item.local_path));
  return entry_of(item, static_cast<std::uint64_t>(info.st_size), digest);
}

wire::agent::ProcessSpec to_wire(const remote::ProcessSpec& process) {
  wire::agent::ProcessSpec spec;
  spec.set_job(process.job);
  spec.set_name(process.name);
  spec.set_program(process.program);
  for (const auto& argument : process.arguments) spec.add_arguments(argument);
  spec.mutable_environment()->insert(process.environment.begin(), process.environment.end());
  spec.set_directory(process.directory);
  spec.set_log(process.log);
  return spec;
}

remote::ProcessStatus from_wire(const wire::agent::ProcessStatus& from) {
  remote::ProcessStatus status;
  status.job = from.job();
  status.name = from.name();
  status.log = from.log();
  switch (from.state()) {
    case PROCESS_RUNNING:
      status.state = remote::ProcessState::kRunning;
      break;
    case PROCESS_EXITED:
      status.state = remote::ProcessState::kExited;
      break;
    case PROCESS_KILLED:
      status.state = remote::ProcessState::kKilled;
      break;
    default:
      status.state = remote::ProcessState::kLost;
      break;
  }
  status.pid = from.pid();
  status.exit_code = from.exit_code();
  status.signal = from.signal();
  status.started_unix_ms = from.started_unix_ms();
  status.ended_unix_ms = from.ended_unix_ms();
  return status;
}

class FramedAgentClient final : public AgentClient {
 public:
  FramedAgentClient(NodeSpec node, std::unique_ptr<Launcher> launcher, Channel channel)
      : node_(std::move(node)),
        launcher_(std::move(launcher)),
        exchange_(node_.name, std::move(channel)) {}

  const NodeSpec& node() const override { return node_; }
  Result<HostFacts> facts() override;
  Result<PushStats> push(const std::vector<PushItem>& items,
                         const std::function<void(std::uint64_t)>& progress) override;
  Result<std::vector<remote::FileEntry>> list(const std::string& folder) override;
  Status fetch(const std::string& remote_path, const std::string& local_path) override;
  Status remove(const std::string& path) override;
  Status write_secret(const std::string& job, const Secret& secret) override;
  Result<std::vector<PortStatus>> check_ports(const std::string& address, std::uint16_t first,
                                              std::uint16_t count) override;
  Status start(const remote::ProcessSpec& process) override;
  Result<std::vector<remote::ProcessStatus>> processes(const std::string& job) override;
  Status stop(const std::string& job, const std::vector<std::string>& names,
              Duration grace) override;
  Result<LogChunk> read_log(const std::string& path, std::uint64_t offset,
                            std::uint32_t max_bytes) override;
  Result<TeardownReport> teardown(bool keep_data) override;

 private:
  // Which of these the node lacks, in manifests that fit a frame.
  Result<std::vector<bool>> missing(const std::vector<wire::agent::FileEntry>& files);
  Status send_file(const PushItem& item, const wire::agent::FileEntry& entry,
                   const std::function<void(std::uint64_t)>& progress);
  Status acknowledge(int down_to);

  NodeSpec node_;
  std::unique_ptr<Launcher> launcher_;  // outlives the channel
  Exchange exchange_;
  int in_flight_ = 0;
};

Result<HostFacts> FramedAgentClient::facts() {
  PADDLE_TRY(const auto facts, exchange_.call<Facts>(AGENT_FACTS, PathRequest(), kCallDeadline));
  HostFacts out;
  out.os = escape_control(facts.os());
  out.kernel = escape_control(facts.kernel());
  out.architecture = escape_control(facts.architecture());
  out.hostname = escape_control(facts.hostname());
  out.cores = facts.cores();
  out.memory_bytes = facts.memory_bytes();
  out.disk_free_bytes = facts.disk_free_bytes();
  for (const auto& gpu : facts.gpus()) out.gpus.push_back(escape_control(gpu));
  out.address = escape_control(facts.address());
  out.agent_version = escape_control(facts.agent_version());
  out.root = escape_control(facts.root());
  return out;
}

Result<std::vector<bool>> FramedAgentClient::missing(
    const std::vector<wire::agent::FileEntry>& files) {
  std::vector<bool> lacks(files.size(), false);
  for (std::size_t begin = 0; begin < files.size();) {
    Manifest manifest;
    std::size_t end = begin;
    for (; end < files.size() && manifest.ByteSizeLong() < kAgentBatchBytes; ++end) {
      *manifest.add_files() = files[end];
    }
    PADDLE_TRY(const auto reply,
               exchange_.call<ManifestReply>(AGENT_MANIFEST, manifest, kDiskDeadline));
    for (const std::uint32_t index : reply.missing()) {
      if (begin + index < end) lacks[begin + index] = true;
    }
    begin = end;
  }
  return lacks;
}

Result<PushStats> FramedAgentClient::push(const std::vector<PushItem>& items,
                                          const std::function<void(std::uint64_t)>& progress) {
  PushStats stats;
  std::vector<wire::agent::FileEntry> files;
  for (const PushItem& item : items) {
    auto entry = describe(item);
    if (!entry) return exchange_.named(std::move(entry).error());
    stats.bytes += entry->size();
    files.push_back(std::move(*entry));
  }
  stats.files = files.size();
  PADDLE_TRY(const std::vector<bool> lacks, missing(files));
  Status status;
  for (std::size_t i = 0; i < files.size() && status; ++i) {
    if (!lacks[i]) continue;
    status = send_file(items[i], files[i], progress);
    ++stats.files_sent;
    stats.bytes_sent += files[i].size();
  }
  // Answers to what is on its way are read even after an error: the next call must find its own.
  const Status rest = acknowledge(0);
  if (!status) return std::move(status).error();
  if (!rest) return rest.error();
  return stats;
}

Status FramedAgentClient::send_file(const PushItem& item, const wire::agent::FileEntry& entry,
                                    const std::function<void(std::uint64_t)>& progress) {
  const UniqueFd fd(::open(item.local_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return exchange_.named(system_error(Errc::kData, "read " + item.local_path));
  Bytes chunk(kAgentChunkBytes);
  std::uint64_t left = entry.size();
  for (bool first = true; first || left > 0; first = false) {
    const std::span<std::byte> part(chunk.data(), std::min<std::uint64_t>(left, chunk.size()));
    if (!read_exact(fd.get(), part, TimePoint::max())) {
      return exchange_.named(
          Error{Errc::kData, item.local_path + " changed while it was pushed", ""});
    }
    left -= part.size();
    Put put;
    if (first) *put.mutable_file() = entry;
    put.set_last(left == 0);
    PADDLE_TRY_STATUS(acknowledge(kChunksInFlight - 1));
    PADDLE_TRY_STATUS(exchange_.send(AGENT_PUT, put, part, kFrameDeadline));
    ++in_flight_;
    if (progress) progress(part.size());
  }
  return {};
}

Status FramedAgentClient::acknowledge(int down_to) {
  Status first;
  while (in_flight_ > down_to) {
    --in_flight_;
    const auto reply = exchange_.receive(AGENT_PUT, kFrameDeadline);
    if (!reply && first) first = reply.error();
    if (exchange_.broken()) in_flight_ = 0;
  }
  return first;
}

Result<std::vector<remote::FileEntry>> FramedAgentClient::list(const std::string& folder) {
  PathRequest request;
  request.set_path(folder);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_LIST, request, {}, kCallDeadline));
  std::vector<remote::FileEntry> entries;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_LIST, kDiskDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ListReply>(frame));
    for (const auto& file : reply.files()) {
      entries.push_back({file.path(), file.size(), to_hex(as_bytes(file.sha256()))});
    }
    more = (frame.header.flags & kAgentFlagMore) != 0;
  }
  return entries;
}

Status FramedAgentClient::fetch(const std::string& remote_path, const std::string& local_path) {
  const std::string temporary = local_path + ".part";
  const UniqueFd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return exchange_.named(system_error(Errc::kResource, "create " + temporary));
  PathRequest request;
  request.set_path(remote_path);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_GET, request, {}, kCallDeadline));
  Status written;
  for (bool more = true; more;) {
    auto frame = exchange_.receive(AGENT_GET, kCallDeadline);
    if (!frame) {
      ::unlink(temporary.c_str());
      return std::move(frame).error();
    }
    if (written) written = write_all(fd.get(), frame->tail, TimePoint::max());
    more = (frame->header.flags & kAgentFlagMore) != 0;
  }
  if (written && ::rename(temporary.c_str(), local_path.c_str()) == 0) return {};
  Error error = written ? system_error(Errc::kResource, "rename " + temporary)
                        : Error{Errc::kResource, temporary + ": " + written.error().message, ""};
  ::unlink(temporary.c_str());
  return exchange_.named(std::move(error));
}

Status FramedAgentClient::remove(const std::string& path) {
  PathRequest request;
  request.set_path(path);
  return exchange_.order(AGENT_REMOVE, request, {}, kDiskDeadline);
}

Status FramedAgentClient::write_secret(const std::string& job, const Secret& secret) {
  SecretRequest request;
  request.set_job(job);
  return exchange_.order(AGENT_SECRET, request, secret.reveal(), kCallDeadline);
}

Result<std::vector<PortStatus>> FramedAgentClient::check_ports(const std::string& address,
                                                               std::uint16_t first,
                                                               std::uint16_t count) {
  PortsRequest request;
  request.set_address(address);
  request.set_first(first);
  request.set_count(count);
  PADDLE_TRY(const auto reply, exchange_.call<PortsReply>(AGENT_PORTS, request, kCallDeadline));
  std::vector<PortStatus> ports;
  for (const auto& port : reply.ports()) {
    ports.push_back(
        {static_cast<std::uint16_t>(port.port()), port.free(), escape_control(port.owner())});
  }
  return ports;
}

Status FramedAgentClient::start(const remote::ProcessSpec& process) {
  return exchange_.order(AGENT_START, to_wire(process), {}, kCallDeadline);
}

Result<std::vector<remote::ProcessStatus>> FramedAgentClient::processes(const std::string& job) {
  ProcessesRequest request;
  request.set_job(job);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_PROCESSES, request, {}, kCallDeadline));
  std::vector<remote::ProcessStatus> statuses;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_PROCESSES, kCallDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ProcessesReply>(frame));
    for (const auto& process : reply.processes()) statuses.push_back(from_wire(process));
    more = (frame.header.flags & kAgentFlagMore) != 0;
  }
  return statuses;
}

Status FramedAgentClient::stop(const std::string& job, const std::vector<std::string>& names,
                               Duration grace) {
  StopRequest request;
  request.set_job(job);
  for (const auto& name : names) request.add_names(name);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
  request.set_grace_ms(static_cast<std::uint64_t>(std::max<long long>(ms, 0)));
  return exchange_.order(AGENT_STOP, request, {}, grace + kStopDeadline);
}

Result<LogChunk> FramedAgentClient::read_log(const std::string& path, std::uint64_t offset,
                                             std::uint32_t max_bytes) {
  ReadLogRequest request;
  request.set_path(path);
  request.set_offset(offset);
  request.set_max_bytes(max_bytes);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_READ_LOG, request, {}, kCallDeadline));
  PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_READ_LOG, kCallDeadline));
  PADDLE_TRY(const auto reply, exchange_.parse<ReadLogReply>(frame));
  return LogChunk{std::string(as_text(frame.tail)), reply.next_offset(), reply.size()};
}

Result<TeardownReport> FramedAgentClient::teardown(bool keep_data) {
  TeardownRequest request;
  request.set_keep_data(keep_data);
  PADDLE_TRY(const auto reply,
             exchange_.call<TeardownReply>(AGENT_TEARDOWN, request, kTeardownDeadline));
  TeardownReport report;
  report.processes_ended = reply.processes_ended();
  report.files_removed = reply.files_removed();
  for (const auto& what : reply.remaining()) report.remaining.push_back(escape_control(what));
  return report;
}

Error named(const NodeSpec& node, Error error) {
  return std::move(error).with("node " + node.name);
}

}  // namespace

Result<std::unique_ptr<AgentClient>> connect(const NodeSpec& node, const ConnectOptions& options) {
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) + options.deadline;
  auto launcher = node.local ? make_local_launcher(node) : make_ssh_launcher(node, deadline);
  if (!launcher) return named(node, std::move(launcher).error());
  auto started = bootstrap(**launcher, node, options, deadline);
  if (!started) return named(node, std::move(started).error());
  return std::unique_ptr<AgentClient>(
      std::make_unique<FramedAgentClient>(node, std::move(*launcher), std::move(started->channel)));
}

}  // namespace paddle::remote
