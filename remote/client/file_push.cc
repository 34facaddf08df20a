#include "remote/client/file_push.h"

#include <algorithm>

#include "proto/agent_channel.h"
#include "proto/keys.h"

namespace paddle::remote {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

constexpr std::size_t kManifestBytesMax = 1U << 20U;
constexpr std::size_t kManifestFilesMax = 8000;  // so that a reply's indices fit a frame's head
constexpr std::size_t kListPartBytes = 1U << 20U;
constexpr std::size_t kPacksInFlight = 8;  // unacknowledged
constexpr Duration kServeDeadline = std::chrono::seconds(30);
constexpr Duration kPatience = std::chrono::milliseconds(100);  // between checks for cancellation

Error cancelled() {
  return Error{Errc::kInterrupted, "the push was interrupted",
               "the next push reuses what was received"};
}

const Sha256Digest& hash_of(const Blob& blob) {
  const FileContent& content = blob.file->content;
  return content.chunks.empty() ? content.id : content.chunks[blob.chunk].hash;
}

}  // namespace

Status FilePush::describe(const std::vector<PushItem>& items) {
  auto described = source_.describe(items);
  if (!described) return exchange_.named(std::move(described).error());
  auto next = described->begin();
  for (const PushItem& item : items) {
    PushEntry& entry = entries_.emplace_back();
    entry.set_path(item.remote_path);
    if (!item.link.empty()) {
      entry.set_link(item.link);
      files_.push_back(nullptr);
      continue;
    }
    const LocalFile& file = **next++;
    entry.set_size(file.stamp.size);
    entry.set_id(std::string(as_text(file.content.id)));
    entry.set_mode(pushed_mode(item.executable ? file.mode | 0100U : file.mode));
    files_.push_back(&file);
    stats_.bytes += file.stamp.size;
  }
  stats_.files = items.size();
  return {};
}

Status FilePush::send_manifest() {
  for (std::size_t begin = 0, end = 0; begin < entries_.size() || begin == 0; begin = end) {
    Manifest manifest;
    std::size_t bytes = 0;
    for (; end < entries_.size() && bytes < kManifestBytesMax && end - begin < kManifestFilesMax;
         ++end) {
      bytes += entries_[end].ByteSizeLong() + 8;
      *manifest.add_files() = entries_[end];
    }
    ManifestRequest request;
    request.set_first(begin == 0);
    const std::string text = manifest.SerializeAsString();
    PADDLE_TRY_STATUS(exchange_.send(AGENT_MANIFEST, request, as_bytes(text), kFrameDeadline));
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_MANIFEST, kDiskDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ManifestReply>(frame));
    for (const std::uint32_t index : reply.missing()) {
      if (begin + index < end && files_[begin + index] != nullptr)
        missing_.push_back(static_cast<std::uint32_t>(begin + index));
    }
    if (entries_.empty()) break;
  }
  return {};
}

void FilePush::add_blob(std::uint32_t file, const Blob& blob) {
  blobs_.push_back(blob);
  blob_entries_.push_back(file);
  stats_.bytes_sent += blob.size;
}

Status FilePush::send_chunk_list(std::uint32_t file) {
  const LocalFile& local = *files_[file];
  const Bytes list = encode_chunks(local.content.chunks);
  Bytes lacking;
  for (std::size_t begin = 0; begin < list.size(); begin += kListPartBytes) {
    const std::size_t size = std::min(kListPartBytes, list.size() - begin);
    ChunksRequest request;
    request.set_file(file);
    request.set_last(begin + size == list.size());
    PADDLE_TRY_STATUS(
        exchange_.send(AGENT_CHUNKS, request, ByteSpan(list).subspan(begin, size), kFrameDeadline));
    PADDLE_TRY(Frame frame, exchange_.receive(AGENT_CHUNKS, kDiskDeadline));
    lacking = std::move(frame.tail);
  }
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < local.content.chunks.size(); ++i) {
    const Chunk& chunk = local.content.chunks[i];
    const std::byte bits = i / 8 < lacking.size() ? lacking[i / 8] : std::byte{0};
    if ((bits >> (i % 8) & std::byte{1}) != std::byte{0})
      add_blob(file, {&local, i, offset, chunk.size});
    offset += chunk.size;
  }
  return {};
}

// Cuts the blobs into packs at content-defined places, so that nodes that lack different blobs
// still have packs in common.
void FilePush::cut_packs() {
  for (std::size_t begin = 0; begin < blobs_.size();) {
    std::size_t end = begin;
    std::uint64_t bytes = 0;
    for (; end < blobs_.size() && end - begin < kPackBlobsMax; ++end) {
      if (bytes + blobs_[end].size > kPackBytesMax && end > begin) break;
      bytes += blobs_[end].size;
      const std::byte mark = hash_of(blobs_[end])[0] & std::byte{3};
      if (bytes >= kPackBytesMax / 2 && mark == std::byte{0}) {
        ++end;
        break;
      }
    }
    packs_.push_back({begin, end});
    begin = end;
  }
}

PackShape FilePush::shape_of(const PackRange& pack) const {
  PackShape shape;
  Sha256 key;
  for (std::size_t i = pack.begin; i < pack.end; ++i) {
    const PushEntry& entry = entries_[blob_entries_[i]];
    const std::uint32_t rest[] = {entry.mode(), blobs_[i].chunk, blobs_[i].size};
    key.update(as_bytes(entry.id()));
    key.update(std::as_bytes(std::span(rest)));
    shape.bytes += blobs_[i].size;
  }
  shape.key = key.finish();
  shape.blobs = pack.end - pack.begin;
  return shape;
}

std::uint64_t FilePush::bytes_of(std::size_t pack) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = packs_[pack].begin; i < packs_[pack].end; ++i) bytes += blobs_[i].size;
  return bytes;
}

Put::Blob FilePush::blob_message(std::size_t blob) const {
  Put::Blob to;
  to.set_file(blob_entries_[blob]);
  to.set_chunk(blobs_[blob].chunk);
  to.set_size(blobs_[blob].size);
  return to;
}

Status FilePush::send_pack(std::size_t index) {
  const auto [begin, end] = packs_[index];
  auto pack = source_.pack(std::span(blobs_).subspan(begin, end - begin));
  if (!pack) return exchange_.named(std::move(pack).error());
  Put put;
  put.set_raw_bytes((*pack)->raw_bytes);
  for (std::size_t i = begin; i < end; ++i) *put.add_blobs() = blob_message(i);
  PADDLE_TRY_STATUS(acknowledge(kPacksInFlight - 1));
  PADDLE_TRY_STATUS(exchange_.send(AGENT_PUT, put, (*pack)->bytes, kFrameDeadline));
  stats_.bytes_on_wire += (*pack)->bytes.size();
  in_flight_.push_back(index);
  return {};
}

Status FilePush::send_packs() {
  for (std::size_t i = 0; i < packs_.size(); ++i) PADDLE_TRY_STATUS(send_pack(i));
  return {};
}

Status FilePush::acknowledge(std::size_t down_to) {
  Status first;
  while (in_flight_.size() > down_to) {
    const std::size_t pack = in_flight_.front();
    const auto reply = exchange_.receive(AGENT_PUT, kFrameDeadline);
    if (reply && index_) source_.fan_out().arrived(*index_, pack);
    if (reply && !goes_on(bytes_of(pack)) && first) first = cancelled();
    in_flight_.erase(in_flight_.begin());
    if (!reply && first) first = reply.error();
    if (exchange_.broken()) in_flight_.clear();
  }
  return first;
}

std::optional<ServingNode> FilePush::start_serving() {
  const auto token = Secret::generate();
  if (!token) return std::nullopt;
  ServeRequest request;
  request.set_address(node_.address);
  request.set_port(node_.push_port);
  if (!exchange_.send(AGENT_SERVE, request, token->reveal(), kServeDeadline)) return std::nullopt;
  const auto frame = exchange_.receive(AGENT_SERVE, kServeDeadline);
  if (!frame) return std::nullopt;  // no such address or port: the node only receives
  const auto reply = exchange_.parse<ServeReply>(*frame);
  if (!reply) return std::nullopt;
  serving_ = true;
  return ServingNode{reply->address(), static_cast<std::uint16_t>(reply->port()), reply->sealed(),
                     *token};
}

Status FilePush::pull(const FanOut::Step& step) {
  PADDLE_TRY_STATUS(acknowledge(0));
  PullRequest request;
  request.mutable_from()->set_address(step.at->address);
  request.mutable_from()->set_port(step.at->port);
  request.mutable_from()->set_sealed(step.at->sealed);
  const auto caller = static_cast<std::uint32_t>(*index_);
  request.set_caller(caller);
  for (const std::size_t pack : step.packs) {
    for (std::size_t i = packs_[pack].begin; i < packs_[pack].end; ++i)
      *request.add_blobs() = blob_message(i);
  }
  const Secret key = peer_caller_key(step.at->token, caller);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_PULL, request, key.reveal(), kFrameDeadline));
  const auto frame = exchange_.receive(AGENT_PULL, kFrameDeadline);
  if (exchange_.broken()) return frame.error();
  PullReply reply;
  // For an error reply: the node cannot use the address of the other node.
  reply.set_outcome(PROBE_NO_ROUTE);
  if (frame) {
    PADDLE_TRY(reply, exchange_.parse<PullReply>(*frame));
  }
  std::size_t whole = 0, blobs = 0;
  std::uint64_t bytes = 0;
  for (; whole < step.packs.size(); ++whole) {
    const PackRange& pack = packs_[step.packs[whole]];
    blobs += pack.end - pack.begin;
    if (blobs > reply.arrived()) break;
    bytes += bytes_of(step.packs[whole]);
  }
  stats_.bytes_from_nodes += bytes;
  const bool reached = reply.outcome() == PROBE_REACHED || reply.outcome() == PROBE_STALLED;
  source_.fan_out().pulled(*index_, step, whole, reached);
  return goes_on(bytes) ? Status() : cancelled();
}

Status FilePush::share_packs() {
  FanOut& fan_out = source_.fan_out();
  std::vector<PackShape> shapes;
  for (const PackRange& pack : packs_) shapes.push_back(shape_of(pack));
  fan_out.announce(*index_, shapes, serves_);
  for (;;) {
    const FanOut::Step step = fan_out.next(*index_);
    switch (step.kind) {
      case FanOut::Step::Kind::kSend:
        for (const std::size_t pack : step.packs) PADDLE_TRY_STATUS(send_pack(pack));
        break;
      case FanOut::Step::Kind::kPull:
        PADDLE_TRY_STATUS(pull(step));
        break;
      case FanOut::Step::Kind::kWait:
        if (!in_flight_.empty()) {
          PADDLE_TRY_STATUS(acknowledge(0));
        } else {
          fan_out.wait(step.seen, kPatience);
        }
        if (!goes_on(0)) return cancelled();
        break;
      case FanOut::Step::Kind::kDone:
        return {};
    }
  }
}

// Keeps serving until the other nodes are complete.
Status FilePush::wait_for_others() {
  while (const auto seen = source_.fan_out().unfinished()) {
    source_.fan_out().wait(*seen, kPatience);
    if (!goes_on(0)) return cancelled();
  }
  return {};
}

Status FilePush::move_all(const std::vector<PushItem>& items, const std::string& keep_only) {
  PADDLE_TRY_STATUS(describe(items));
  PADDLE_TRY_STATUS(send_manifest());
  std::uint64_t most = 0;  // upper bound of the bytes to send: chunks of a large file may be there
  for (const std::uint32_t file : missing_) most += files_[file]->stamp.size;
  if (source_.fan_out().enabled() && most >= kFanOutBytesMin) {
    index_ = source_.fan_out().join(node_.name);
    serves_ = start_serving();  // before the node is busy copying
  }
  for (const std::uint32_t file : missing_) {
    if (!is_chunked(files_[file]->stamp.size))
      add_blob(file, {files_[file], 0, 0, static_cast<std::uint32_t>(files_[file]->stamp.size)});
  }
  for (const std::uint32_t file : missing_) {
    if (is_chunked(files_[file]->stamp.size)) PADDLE_TRY_STATUS(send_chunk_list(file));
  }
  stats_.files_sent = missing_.size();
  if (progress_ && !progress_(stats_.bytes_sent, 0)) return cancelled();
  cut_packs();
  if (index_ && stats_.bytes_sent < kFanOutBytesMin) {
    source_.fan_out().leave(*index_);
    index_.reset();
  }
  Status sent = index_ ? share_packs() : send_packs();
  // Outstanding replies are read even after an error, so that the next call finds its own.
  Status rest = acknowledge(0);
  if (!sent) return sent;
  if (!rest) return rest;
  PlaceRequest place;
  place.set_keep_only(keep_only);
  PADDLE_TRY_STATUS(exchange_.order(AGENT_PLACE, place, {}, kDiskDeadline));
  return index_ ? wait_for_others() : Status();
}

Result<PushStats> FilePush::run(const std::vector<PushItem>& items, const std::string& keep_only) {
  const Status moved = move_all(items, keep_only);
  if (index_) source_.fan_out().leave(*index_);
  const Status ended =
      serving_ ? exchange_.order(AGENT_SERVE_END, Put(), {}, kServeDeadline) : Status();
  if (!moved) return moved.error();
  if (!ended) return ended.error();
  return stats_;
}

}  // namespace paddle::remote
