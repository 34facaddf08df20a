#include "remote/agent/session.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <tuple>

#include <fmt/format.h>

#include "base/version.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "proto/content.h"
#include "remote/agent/node/files.h"
#include "remote/agent/node/host.h"
#include "remote/agent/node/log_file.h"
#include "remote/agent/node/node_copy.h"
#include "remote/agent/node/root.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/process/command.h"
#include "remote/agent/process/key_files.h"
#include "remote/agent/process/processes.h"
#include "remote/agent/process/usage.h"
#include "remote/agent/store/incoming_push.h"
#include "remote/agent/store/peer.h"
#include "remote/agent/store/peer_probe.h"

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

constexpr std::uint64_t kClaimWaitMs = 10'000;
constexpr std::size_t kCopyPartBytes = 256U << 10U;  // maximum of a CopyTree in one reply
constexpr std::size_t kEntryBytes = 8;               // upper bound of the encoding around an entry

template <class Message>
Result<Message> parse(const Frame& frame) {
  Message message;
  if (message.ParseFromString(frame.head)) return message;
  return Error{Errc::kData, "malformed request", ""};
}

// The agent's end of one controller's channel: requests are answered in order, by a table of kinds.
class Session {
 public:
  // Sends one reply frame; fails only when the controller has gone.
  using Send = std::function<Status(wire::agent::AgentKind kind, std::uint16_t flags,
                                    const google::protobuf::MessageLite& head, ByteSpan tail)>;

  // The next of `requests` ends a running command.
  Session(const Root& root, RequestStream& requests, Send send)
      : root_(root),
        requests_(requests),
        send_(std::move(send)),
        incoming_(root),
        copies_(root),
        claims_(root) {}

  // Answers a request, if necessary with an error reply. Fails only when the channel is lost.
  Status on_frame(const Frame& request);
  // True after a teardown: no further request can be served.
  bool finished() const { return finished_; }

 private:
  struct Request {
    wire::agent::AgentKind kind;
    Status (*answer)(Session& session, const Frame& request);
  };
  static const Request kRequests[];
  template <class Message, auto run>
  static Status answer(Session& session, const Frame& request);
  template <auto member>
  static Status pass(Session& session, const Frame& request);

  Status handle(const Frame& request);
  Status handle_within_memory(const Frame& request);
  Status manifest(const Frame& request);
  Status chunks(const Frame& request);
  Status list(const Frame& request);
  Status get(const Frame& request);
  Status copy(const Frame& request);
  Status keep_keys(const std::string& job, const std::string& process, ByteSpan keys);
  // Ends the processes at once, in the name of the command that revoked this session's claim of the
  // job.
  void end(const std::string& job, const std::vector<std::string>& names) const;
  Status processes(const Frame& request);
  Status read_file(const Frame& request);
  Status run(const Frame& request);
  Status send_head(wire::agent::AgentKind kind, const google::protobuf::MessageLite& head);
  // Calls send_ and records its failure as one of the channel, not of the request.
  Status send(wire::agent::AgentKind kind, std::uint16_t flags,
              const google::protobuf::MessageLite& head, ByteSpan tail);

  const Root& root_;
  RequestStream& requests_;
  Send send_;
  IncomingPush incoming_;
  CopyFolders copies_;
  wire::agent::CopyTree copied_;  // received so far, of a copy whose request arrives in parts
  Claims claims_;
  PeerListener probe_listener_;
  PeerListener store_listener_;
  bool channel_lost_ = false;
  bool finished_ = false;
};

// Parses a Message, passes it to `run`, and replies with the message that `run` returns, or with an
// empty one for a Status.
template <class Message, auto run>
Status Session::answer(Session& session, const Frame& request) {
  const auto kind = static_cast<AgentKind>(request.header.type);
  PADDLE_TRY(const auto message, parse<Message>(request));
  auto reply = run(session, message, request.tail);
  if (!reply) return reply.error();
  if constexpr (std::is_same_v<decltype(reply), Status>) {
    return session.send_head(kind, Put());
  } else {
    return session.send_head(kind, *reply);
  }
}

// Calls `member`, which sends its replies itself: in parts, or with bytes in their tail.
template <auto member>
Status Session::pass(Session& session, const Frame& request) {
  return (session.*member)(request);
}

const Session::Request Session::kRequests[] = {
    {AGENT_FACTS, answer<PathRequest,
                         [](Session& s, const PathRequest&, ByteSpan) -> Result<Facts> {
                           return host_facts(s.root_);
                         }>},
    {AGENT_MANIFEST, pass<&Session::manifest>},
    {AGENT_CHUNKS, pass<&Session::chunks>},
    {AGENT_PUT, answer<Put, [](Session& s, const Put& put,
                               ByteSpan tail) { return s.incoming_.put(put, tail); }>},
    {AGENT_PLACE,
     answer<PlaceRequest, [](Session& s, const PlaceRequest& place,
                             ByteSpan) { return s.incoming_.place(place.keep_only()); }>},
    {AGENT_SERVE, answer<ServeRequest,
                         [](Session& s, const ServeRequest& serve, ByteSpan token) {
                           return serve_store(s.store_listener_, s.root_, serve, token);
                         }>},
    {AGENT_SERVE_END, answer<PathRequest,
                             [](Session& s, const PathRequest&, ByteSpan) {
                               s.store_listener_.stop();
                               return Status();
                             }>},
    {AGENT_PULL, answer<PullRequest, [](Session& s, const PullRequest& pull,
                                        ByteSpan key) { return s.incoming_.pull(pull, key); }>},
    {AGENT_LIST, pass<&Session::list>},
    {AGENT_GET, pass<&Session::get>},
    {AGENT_REMOVE, answer<PathRequest,
                          [](Session& s, const PathRequest& path, ByteSpan) -> Status {
                            if (path.path().starts_with("jobs/"))
                              wipe_key_files(s.root_, path.path().substr(5));
                            PADDLE_TRY_STATUS(remove_path(s.root_, path.path()));
                            if (path.path().starts_with("jobs/"))
                              end_notices(s.root_, path.path().substr(5));
                            sweep_store(s.root_);
                            return {};
                          }>},
    {AGENT_MOVE,
     answer<MoveRequest, [](Session& s, const MoveRequest& move,
                            ByteSpan) { return move_path(s.root_, move.from(), move.to()); }>},
    {AGENT_COPY, pass<&Session::copy>},
    {AGENT_CLAIM, answer<ClaimRequest,
                         [](Session& s, const ClaimRequest& claim, ByteSpan) -> Result<ClaimReply> {
                           const auto wait = std::min(claim.wait_ms(), kClaimWaitMs);
                           PADDLE_TRY(const auto others,
                                      s.claims_.claim(claim, std::chrono::milliseconds(wait)));
                           ClaimReply reply;
                           for (const JobClaim& other : others) *reply.add_others() = other;
                           return reply;
                         }>},
    {AGENT_KEYS, answer<KeysRequest,
                        [](Session& s, const KeysRequest& request, ByteSpan secret) {
                          return s.keep_keys(request.job(), request.process(), secret);
                        }>},
    {AGENT_PORTS, answer<PortsRequest,
                         [](Session& s, const PortsRequest& ports, ByteSpan) {
                           return check_ports(ports, [&](std::uint32_t port) {
                             return s.claims_.port(ports.address(), port);
                           });
                         }>},
    {AGENT_STARTED, answer<PathRequest,
                           [](Session& s, const PathRequest& job, ByteSpan) {
                             job.path().empty() ? s.claims_.release()
                                                : s.claims_.release(job.path());
                             return Status();
                           }>},
    {AGENT_START, answer<ProcessSpec,
                         [](Session& s, const ProcessSpec& spec, ByteSpan) -> Status {
                           return s.claims_.start(
                               spec.job(), [&] { return start_process(s.root_, spec); },
                               [&] { s.end(spec.job(), {spec.name()}); });
                         }>},
    {AGENT_PROCESSES, pass<&Session::processes>},
    {AGENT_STOP, answer<StopRequest,
                        [](Session& s, const StopRequest& asked, ByteSpan) {
                          StopRequest stop = asked;
                          stop.set_by(s.claims_.holder(stop.job()));
                          stop.set_is_rest(s.claims_.follows(stop.job()));
                          return stop_processes(s.root_, stop);
                        }>},
    {AGENT_RESTART,
     answer<RestartRequest,
            [](Session& s, const RestartRequest& restart, ByteSpan) -> Status {
              PADDLE_TRY_STATUS(s.claims_.check(restart.job()));
              // Without a claim, the end of the job's last running process could wipe the keys
              // meanwhile.
              if (!s.claims_.may_start(restart.job()))
                return Error{Errc::kData, "this session has not claimed the job to restart", ""};
              return s.claims_.start(
                  restart.job(), [&] { return restart_processes(s.root_, restart); },
                  [&] {
                    s.end(restart.job(), {restart.names().begin(), restart.names().end()});
                  });
            }>},
    {AGENT_READ_FILE, pass<&Session::read_file>},
    {AGENT_RUN, pass<&Session::run>},
    {AGENT_LEFTOVERS, answer<PathRequest, [](Session& s, const PathRequest&,
                                             ByteSpan) { return find_leftovers(s.root_); }>},
    {AGENT_LISTEN, answer<ProbeTarget,
                          [](Session& s, const ProbeTarget& target, ByteSpan token) {
                            return answer_probes(s.probe_listener_, target, token);
                          }>},
    {AGENT_LISTEN_END, answer<PathRequest,
                              [](Session& s, const PathRequest&, ByteSpan) {
                                s.probe_listener_.stop();
                                return Status();
                              }>},
    {AGENT_PROBE, answer<ProbeTarget, [](Session&, const ProbeTarget& target,
                                         ByteSpan key) { return probe(target, key); }>},
    {AGENT_TEARDOWN,
     answer<TeardownRequest,
            [](Session& s, const TeardownRequest& wanted, ByteSpan) -> Result<TeardownReply> {
              PADDLE_TRY(auto reply, teardown(s.root_, wanted.keep_data()));
              s.finished_ = true;
              return reply;
            }>},
};

Status Session::handle(const Frame& request) {
  const auto kind = static_cast<AgentKind>(request.header.type);
  // No reply: the command has ended already.
  if (kind == AGENT_RUN_END || kind == AGENT_RUN_READ) return {};
  const auto row = std::ranges::find(kRequests, kind, &Request::kind);
  if (row != std::end(kRequests)) return row->answer(*this, request);
  return Error{
      Errc::kVersion,
      std::string("agent ") + kProgramVersion + " does not know request " + std::to_string(kind),
      "use paddlectl and paddlectl-agent of the same release"};
}

// A request that needs more memory than is available fails; the session continues.
Status Session::handle_within_memory(const Frame& request) {
  try {
    return handle(request);
  } catch (const std::bad_alloc&) {
    return Error{Errc::kResource, "the agent is out of memory", ""};
  }
}

Status Session::on_frame(const Frame& request) {
  Status done = handle_within_memory(request);
  if (done || channel_lost_) return done;
  // A copy may go to another file system, so the free space here is irrelevant.
  if (request.header.type != AGENT_COPY) done = with_room(root_, std::move(done).error());
  ErrorReply reply;
  reply.set_code(static_cast<int>(done.error().code));
  reply.set_message(done.error().message);
  reply.set_hint(done.error().hint);
  return send_(AGENT_ERROR, 0, reply, {});
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
  // Before the reply, after which the controller sends chunks: nothing may wait in the channel for
  // as long as a copy can take.
  if (head.last()) incoming_.copy_known();
  return send(AGENT_CHUNKS, 0, Put(), lacking);
}

Status Session::list(const Frame& request) {
  PADDLE_TRY(const auto folder, parse<PathRequest>(request));
  ListReply reply;
  PADDLE_TRY_STATUS(list_files(root_, folder, [&](const FileEntry& entry) -> Status {
    *reply.add_files() = entry;
    if (reply.ByteSizeLong() < kAgentBatchBytes) return {};
    Status sent = send(AGENT_LIST, kAgentFlagMore, reply, {});
    reply.Clear();
    return sent;
  }));
  return send_head(AGENT_LIST, reply);
}

Status Session::get(const Frame& request) {
  PADDLE_TRY(const auto wanted, parse<PathRequest>(request));
  return send_file(root_, wanted, [&](ByteSpan chunk, bool more) {
    GetReply reply;
    const auto packed = compress(chunk);
    if (packed) reply.set_raw_bytes(static_cast<std::uint32_t>(chunk.size()));
    return send(AGENT_GET, more ? kAgentFlagMore : std::uint16_t{0}, reply,
                packed ? ByteSpan(*packed) : chunk);
  });
}

Status Session::copy(const Frame& request) {
  PADDLE_TRY(const auto head, parse<CopyRequest>(request));
  PADDLE_TRY_STATUS(copies_.use());
  CopyTree part;
  if (!head.bring_in()) {
    if (!part.ParseFromArray(request.tail.data(), static_cast<int>(request.tail.size()))) {
      copied_.Clear();
      return Error{Errc::kData, "malformed request", ""};
    }
    copied_.MergeFrom(part);
    if (copied_.entries_size() > static_cast<int>(kPushEntriesMax)) {
      copied_.Clear();
      return Error{Errc::kUsage, "there are over a million files and folders",
                   "copy them in parts"};
    }
    if (head.more()) return send_head(AGENT_COPY, CopyReply());
    const CopyTree tree = std::exchange(copied_, {});
    PADDLE_TRY(const CopyReply reply, copy_out(root_, head, tree));
    return send_head(AGENT_COPY, reply);
  }
  std::size_t bytes = 0;
  PADDLE_TRY(const CopyReply reply, copy_in(root_, head, [&](const CopyEntry& entry) -> Status {
               bytes += entry.ByteSizeLong() + kEntryBytes;
               *part.add_entries() = entry;
               if (bytes < kCopyPartBytes) return {};
               bytes = 0;
               const CopyTree full = std::exchange(part, {});
               return send(AGENT_COPY, kAgentFlagMore, CopyReply(),
                           as_bytes(full.SerializeAsString()));
             }));
  return send(AGENT_COPY, 0, reply, as_bytes(part.SerializeAsString()));
}

Status Session::keep_keys(const std::string& job, const std::string& process, ByteSpan keys) {
  PADDLE_TRY_STATUS(claims_.check(job));
  if (!claims_.may_start(job))
    return Error{Errc::kData, "this session has not claimed the job of the keys", ""};
  return write_key_file(root_, job, process, keys);
}

void Session::end(const std::string& job, const std::vector<std::string>& names) const {
  StopRequest stop;
  stop.set_job(job);
  stop.mutable_names()->Assign(names.begin(), names.end());
  stop.set_by(claims_.revoker(job));
  stop.set_is_rest(stop.by().empty());
  std::ignore = stop_processes(root_, stop);  // the revoking command names what is left
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
  *reply.mutable_identity() = node_identity(root_);
  return send_head(AGENT_PROCESSES, reply);
}

Status Session::read_file(const Frame& request) {
  PADDLE_TRY(const auto wanted, parse<ReadFileRequest>(request));
  PADDLE_TRY(const FilePart part, read_part(root_, wanted.path(), wanted.offset(),
                                            wanted.max_bytes(), wanted.since_unix_ms()));
  ReadFileReply reply;
  reply.set_next_offset(part.next_offset);
  reply.set_size(part.size);
  for (const LogTime& time : part.times) {
    wire::agent::LogTime& sent = *reply.add_times();
    sent.set_offset(time.offset);
    sent.set_unix_ms(time.unix_ms);
  }
  return send(AGENT_READ_FILE, 0, reply, part.data);
}

Status Session::run(const Frame& request) {
  PADDLE_TRY(const auto command, parse<RunRequest>(request));
  return run_command(command, requests_, [&](const RunReply& reply, ByteSpan output, bool more) {
    return send(AGENT_RUN, more ? kAgentFlagMore : std::uint16_t{0}, reply, output);
  });
}

Status Session::send_head(AgentKind kind, const google::protobuf::MessageLite& head) {
  return send(kind, 0, head, {});
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

}  // namespace

Status serve(const Root& root, int input, int output, Duration silence_max) {
  std::uint64_t sequence = 0;
  const auto send = [&](wire::agent::AgentKind kind, std::uint16_t flags,
                        const google::protobuf::MessageLite& head, ByteSpan tail) {
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(kind);
    header.flags = flags;
    header.sender = {Role::kAgent, 0};
    header.sequence = sequence;
    return write_frame(output, header, as_bytes(head.SerializeAsString()), tail,
                       TimePoint(std::chrono::steady_clock::now()) + kFrameDeadline);
  };
  // A user may have removed the folder of the node by hand. Its jobs are gone, but not their keys.
  if (!open_folder(root, "jobs")) wipe_stray_key_files(root);
  RequestStream requests(input, silence_max);
  Session session(root, requests, send);
  while (!session.finished()) {
    auto request = requests.next();
    if (!request && request.error().code == Errc::kUnreachable) return {};  // the controller left
    if (!request) {
      wire::agent::ErrorReply reply;
      reply.set_code(static_cast<int>(request.error().code));
      reply.set_message(request.error().message);
      [[maybe_unused]] const auto sent = send(wire::agent::AGENT_ERROR, 0, reply, {});
      return request.error();
    }
    sequence = request->header.sequence;
    const Status done = session.on_frame(*request);
    if (request->header.type == wire::agent::AGENT_KEYS)
      ::explicit_bzero(request->tail.data(), request->tail.size());
    PADDLE_TRY_STATUS(done);
  }
  return {};
}

}  // namespace paddle::agent
