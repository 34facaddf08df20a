#include "remote/file_push.h"

#include <algorithm>

#include "proto/frame_stream.h"
#include "remote/file_sync.h"

namespace paddle::remote {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

namespace {

constexpr std::size_t kManifestBytesMax = 1U << 20U;
constexpr std::size_t kManifestFilesMax = 8000;  // the answer's indices are in a frame's head
constexpr std::size_t kListPartBytes = 1U << 20U;
constexpr std::size_t kPacksInFlight = 8;  // unacknowledged

Error broken_off() {
  return Error{Errc::kInterrupted, "the push was broken off",
               "what arrived stays for the next one"};
}

}  // namespace

Status FilePush::describe(const std::vector<PushItem>& items) {
  std::vector<std::string> paths;
  for (const PushItem& item : items) {
    if (item.link.empty()) paths.push_back(item.local_path);
  }
  auto described = source_.describe(paths);
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

Status FilePush::tell_manifest() {
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

Status FilePush::tell_chunks(std::uint32_t file) {
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

Status FilePush::send_pack(std::size_t begin, std::size_t end) {
  const auto blobs = std::span(blobs_).subspan(begin, end - begin);
  auto pack = source_.pack(blobs);
  if (!pack) return exchange_.named(std::move(pack).error());
  Put put;
  put.set_raw_bytes((*pack)->raw_bytes);
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) {
    Put::Blob& blob = *put.add_blobs();
    blob.set_file(blob_entries_[i]);
    blob.set_chunk(blobs_[i].chunk);
    blob.set_size(blobs_[i].size);
    bytes += blobs_[i].size;
  }
  PADDLE_TRY_STATUS(acknowledge(kPacksInFlight - 1));
  PADDLE_TRY_STATUS(exchange_.send(AGENT_PUT, put, (*pack)->bytes, kFrameDeadline));
  stats_.bytes_on_wire += (*pack)->bytes.size();
  in_flight_.push_back(bytes);
  return {};
}

Status FilePush::send_blobs() {
  for (std::size_t begin = 0; begin < blobs_.size();) {
    std::size_t end = begin;
    for (std::size_t bytes = 0; end < blobs_.size() && end - begin < kPackBlobsMax; ++end) {
      bytes += blobs_[end].size;
      if (bytes > kPackBytesMax && end > begin) break;
    }
    PADDLE_TRY_STATUS(send_pack(begin, end));
    begin = end;
  }
  return {};
}

Status FilePush::acknowledge(std::size_t down_to) {
  Status first;
  while (in_flight_.size() > down_to) {
    const auto reply = exchange_.receive(AGENT_PUT, kFrameDeadline);
    const bool goes_on = !reply || !progress_ || progress_(0, in_flight_.front());
    if (!goes_on && first) first = broken_off();
    in_flight_.erase(in_flight_.begin());
    if (!reply && first) first = reply.error();
    if (exchange_.broken()) in_flight_.clear();
  }
  return first;
}

Result<PushStats> FilePush::run(const std::vector<PushItem>& items, const std::string& keep_only) {
  PADDLE_TRY_STATUS(describe(items));
  PADDLE_TRY_STATUS(tell_manifest());
  for (const std::uint32_t file : missing_) {
    if (!is_chunked(files_[file]->stamp.size))
      add_blob(file, {files_[file], 0, 0, static_cast<std::uint32_t>(files_[file]->stamp.size)});
  }
  for (const std::uint32_t file : missing_) {
    if (is_chunked(files_[file]->stamp.size)) PADDLE_TRY_STATUS(tell_chunks(file));
  }
  stats_.files_sent = missing_.size();
  if (progress_ && !progress_(stats_.bytes_sent, 0)) return broken_off();
  const Status sent = send_blobs();
  // Answers to what is on its way are read even after an error: the next call must find its own.
  const Status rest = acknowledge(0);
  if (!sent) return sent.error();
  if (!rest) return rest.error();
  PlaceRequest place;
  place.set_keep_only(keep_only);
  PADDLE_TRY_STATUS(exchange_.order(AGENT_PLACE, place, {}, kDiskDeadline));
  return stats_;
}

}  // namespace paddle::remote
