#include "remote/agent/session.h"

#include <algorithm>

#include "base/secret.h"
#include "base/version.h"
#include "proto/content.h"
#include "remote/agent/log/log_file.h"
#include "remote/agent/peer/probe.h"
#include "remote/agent/process/command.h"
#include "remote/agent/process/host.h"
#include "remote/agent/process/processes.h"
#include "remote/agent/process/usage.h"
#include "remote/agent/root/files.h"
#include "remote/agent/root/node_copy.h"

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

namespace {

constexpr std::uint64_t kClaimWaitMs = 10'000;

template <class Message>
Result<Message> parse(const Frame& frame) {
  Message message;
  if (message.ParseFromString(frame.head)) return message;
  return Error{Errc::kData, "malformed request", ""};
}

}  // namespace

Status Session::on_frame(const Frame& request) {
  const auto kind = static_cast<AgentKind>(request.header.type);
  const Status done = handle(kind, request);
  if (done || channel_lost_) return done;
  ErrorReply reply;
  reply.set_code(static_cast<int>(done.error().code));
  reply.set_message(done.error().message);
  reply.set_hint(done.error().hint);
  return send_(AGENT_ERROR, 0, reply, {});
}

Status Session::handle(AgentKind kind, const Frame& request) {
  switch (kind) {
    case AGENT_FACTS:
      return send_head(kind, host_facts(root_));
    case AGENT_MANIFEST:
      return manifest(request);
    case AGENT_CHUNKS:
      return chunks(request);
    case AGENT_PLACE: {
      PADDLE_TRY(const auto place, parse<PlaceRequest>(request));
      PADDLE_TRY_STATUS(incoming_.place(place.keep_only()));
      return send_empty(kind);
    }
    case AGENT_SERVE: {
      PADDLE_TRY(const auto serve, parse<ServeRequest>(request));
      PADDLE_TRY(const auto reply, serve_store(store_listener_, root_, serve, request.tail));
      return send_head(kind, reply);
    }
    case AGENT_SERVE_END:
      store_listener_.stop();
      return send_empty(kind);
    case AGENT_PULL: {
      PADDLE_TRY(const auto pull, parse<PullRequest>(request));
      PADDLE_TRY(const auto reply, incoming_.pull(pull, request.tail));
      return send_head(kind, reply);
    }
    case AGENT_PUT:
      return put(request);
    case AGENT_LIST:
      return list(request);
    case AGENT_GET:
      return get(request);
    case AGENT_REMOVE:
      return remove(request);
    case AGENT_CLAIM:
      return claim(request);
    case AGENT_SECRET:
      return secret(request);
    case AGENT_PORTS: {
      PADDLE_TRY(const auto ports, parse<PortsRequest>(request));
      PADDLE_TRY(const auto reply, check_ports(ports, claims_));
      return send_head(kind, reply);
    }
    case AGENT_STARTED:
      claims_.release();
      return send_empty(kind);
    case AGENT_START: {
      PADDLE_TRY(const auto spec, parse<ProcessSpec>(request));
      PADDLE_TRY_STATUS(start_process(root_, spec));
      return send_empty(kind);
    }
    case AGENT_PROCESSES:
      return processes(request);
    case AGENT_STOP: {
      PADDLE_TRY(const auto stop, parse<StopRequest>(request));
      PADDLE_TRY_STATUS(stop_processes(root_, stop));
      return send_empty(kind);
    }
    case AGENT_RESTART: {
      PADDLE_TRY(const auto restart, parse<RestartRequest>(request));
      PADDLE_TRY_STATUS(restart_processes(root_, restart));
      return send_empty(kind);
    }
    case AGENT_READ_LOG:
      return log(request);
    case AGENT_TEARDOWN: {
      PADDLE_TRY(const auto wanted, parse<TeardownRequest>(request));
      PADDLE_TRY(const auto reply, teardown(root_, wanted.keep_data()));
      finished_ = true;
      return send_head(kind, reply);
    }
    case AGENT_RUN:
      return run(request);
    case AGENT_RUN_END:
      return {};  // the command had ended by itself
    case AGENT_COPY: {
      PADDLE_TRY(const auto copy, parse<CopyRequest>(request));
      PADDLE_TRY_STATUS(copies_.use());
      PADDLE_TRY(const auto reply, copy_files(root_, copy));
      return send_head(kind, reply);
    }
    case AGENT_LEFTOVERS: {
      PADDLE_TRY(const auto reply, find_leftovers(root_));
      return send_head(kind, reply);
    }
    case AGENT_LISTEN: {
      PADDLE_TRY(const auto target, parse<ProbeTarget>(request));
      PADDLE_TRY_STATUS(answer_probes(probe_listener_, target, request.tail));
      return send_empty(kind);
    }
    case AGENT_LISTEN_END:
      probe_listener_.stop();
      return send_empty(kind);
    case AGENT_PROBE: {
      PADDLE_TRY(const auto target, parse<ProbeTarget>(request));
      PADDLE_TRY(const auto reply, probe(target, request.tail));
      return send_head(kind, reply);
    }
    default:
      return Error{Errc::kVersion,
                   std::string("agent ") + kProgramVersion + " does not know request " +
                       std::to_string(kind),
                   "use one release of paddlectl and paddlectl-agent"};
  }
}

Status Session::manifest(const Frame& request) {
  PADDLE_TRY(const auto head, parse<ManifestRequest>(request));
  Manifest manifest;
  if (!manifest.ParseFromArray(request.tail.data(), static_cast<int>(request.tail.size())))
    return Error{Errc::kData, "malformed request", ""};
  const bool copies = std::ranges::any_of(
      manifest.files(), [](const PushEntry& file) { return CopyFolders::holds(file.path()); });
  if (copies) PADDLE_TRY_STATUS(copies_.use());
  if (!copies && head.first()) copies_.clear();
  PADDLE_TRY(const auto reply, incoming_.manifest(head.first(), manifest));
  return send_head(AGENT_MANIFEST, reply);
}

Status Session::chunks(const Frame& request) {
  PADDLE_TRY(const auto head, parse<ChunksRequest>(request));
  PADDLE_TRY(const Bytes lacking, incoming_.chunks(head, request.tail));
  PADDLE_TRY_STATUS(send(AGENT_CHUNKS, 0, Put(), lacking));
  if (head.last()) incoming_.copy_known();
  return {};
}

Status Session::put(const Frame& request) {
  PADDLE_TRY(const auto put, parse<Put>(request));
  PADDLE_TRY_STATUS(incoming_.put(put, request.tail));
  return send_empty(AGENT_PUT);
}

Status Session::remove(const Frame& request) {
  PADDLE_TRY(const auto path, parse<PathRequest>(request));
  PADDLE_TRY_STATUS(remove_path(root_, path.path()));
  sweep_store(root_);
  return send_empty(AGENT_REMOVE);
}

Status Session::list(const Frame& request) {
  PADDLE_TRY(const auto folder, parse<PathRequest>(request));
  ListReply reply;
  PADDLE_TRY_STATUS(list_files(root_, folder.path(), [&](const FileEntry& entry) -> Status {
    *reply.add_files() = entry;
    if (reply.ByteSizeLong() < kAgentBatchBytes) return {};
    const Status sent = send(AGENT_LIST, kAgentFlagMore, reply, {});
    reply.Clear();
    return sent;
  }));
  return send_head(AGENT_LIST, reply);
}

Status Session::get(const Frame& request) {
  PADDLE_TRY(const auto path, parse<PathRequest>(request));
  return send_file(root_, path.path(), [&](std::uint64_t size, ByteSpan chunk, bool more) {
    GetReply reply;
    reply.set_size(size);
    const auto packed = compress(chunk);
    if (packed) reply.set_raw_bytes(static_cast<std::uint32_t>(chunk.size()));
    return send(AGENT_GET, more ? kAgentFlagMore : std::uint16_t{0}, reply,
                packed ? ByteSpan(*packed) : chunk);
  });
}

Status Session::claim(const Frame& request) {
  PADDLE_TRY(const auto claim, parse<ClaimRequest>(request));
  const auto wait = std::chrono::milliseconds(std::min(claim.wait_ms(), kClaimWaitMs));
  PADDLE_TRY_STATUS(claims_.job(claim.job(), claim.again(), wait));
  return send_empty(AGENT_CLAIM);
}

Status Session::secret(const Frame& request) {
  PADDLE_TRY(const auto secret, parse<SecretRequest>(request));
  if (request.tail.size() != kSecretBytes) return Error{Errc::kData, "a secret has 32 bytes", ""};
  if (!claims_.has(secret.job())) return Error{Errc::kData, "a secret of a job not claimed", ""};
  PADDLE_TRY(const SafePath path, SafePath::parse("jobs/" + secret.job() + "/key"));
  PADDLE_TRY_STATUS(replace_below(root_, path, request.tail));
  return send_empty(AGENT_SECRET);
}

Status Session::processes(const Frame& request) {
  PADDLE_TRY(const auto wanted, parse<ProcessesRequest>(request));
  PADDLE_TRY(const auto statuses, list_processes(root_, wanted.job(), wanted.usage()));
  ProcessesReply reply;
  for (const ProcessStatus& status : statuses) {
    *reply.add_processes() = status;
    if (reply.ByteSizeLong() < kAgentBatchBytes) continue;
    PADDLE_TRY_STATUS(send(AGENT_PROCESSES, kAgentFlagMore, reply, {}));
    reply.Clear();
  }
  if (wanted.usage()) *reply.mutable_node() = node_usage();
  return send_head(AGENT_PROCESSES, reply);
}

Status Session::log(const Frame& request) {
  PADDLE_TRY(const auto wanted, parse<ReadLogRequest>(request));
  PADDLE_TRY(const LogPart part, read_log(root_, wanted.path(), wanted.offset(), wanted.max_bytes(),
                                          wanted.since_unix_ms()));
  ReadLogReply reply;
  reply.set_next_offset(part.next_offset);
  reply.set_size(part.size);
  for (const LogTime& time : part.times) {
    wire::agent::LogTime& told = *reply.add_times();
    told.set_offset(time.offset);
    told.set_unix_ms(time.unix_ms);
  }
  return send(AGENT_READ_LOG, 0, reply, part.data);
}

Status Session::run(const Frame& request) {
  PADDLE_TRY(const auto command, parse<RunRequest>(request));
  return run_command(command, input_, [&](const RunReply& reply, ByteSpan output, bool more) {
    return send(AGENT_RUN, more ? kAgentFlagMore : std::uint16_t{0}, reply, output);
  });
}

Status Session::send_head(AgentKind kind, const google::protobuf::MessageLite& head) {
  return send(kind, 0, head, {});
}

Status Session::send_empty(AgentKind kind) {
  return send_head(kind, Put());
}

Status Session::send(AgentKind kind, std::uint16_t flags, const google::protobuf::MessageLite& head,
                     ByteSpan tail) {
  if (head.ByteSizeLong() > kFrameHeadBytesMax) {
    return Error{Errc::kResource, "the answer is too long", ""};
  }
  Status sent = send_(kind, flags, head, tail);
  if (!sent) channel_lost_ = true;
  return sent;
}

}  // namespace paddle::agent
