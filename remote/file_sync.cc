#include "remote/file_sync.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/sha256.h"
#include "engine/base/text.h"
#include "proto/frame_stream.h"

namespace paddle::remote {

using namespace wire::agent;  // NOLINT: the messages are what this file is about

namespace {

// Between two frames of an answer.
constexpr Duration kAnswerDeadline = std::chrono::seconds(30);
constexpr std::size_t kFilesListedMax = 1'000'000;
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

}  // namespace

Result<std::vector<bool>> FileSync::missing(const std::vector<wire::agent::FileEntry>& files) {
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

Result<PushStats> FileSync::push(const std::vector<PushItem>& items,
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

Status FileSync::send_file(const PushItem& item, const wire::agent::FileEntry& entry,
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

Status FileSync::acknowledge(int down_to) {
  Status first;
  while (in_flight_ > down_to) {
    --in_flight_;
    const auto reply = exchange_.receive(AGENT_PUT, kFrameDeadline);
    if (!reply && first) first = reply.error();
    if (exchange_.broken()) in_flight_ = 0;
  }
  return first;
}

Result<std::vector<remote::FileEntry>> FileSync::list(const std::string& folder) {
  PathRequest request;
  request.set_path(folder);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_LIST, request, {}, kAnswerDeadline));
  std::vector<remote::FileEntry> entries;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_LIST, kDiskDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ListReply>(frame));
    for (const auto& file : reply.files()) {
      entries.push_back({file.path(), file.size(), to_hex(as_bytes(file.sha256()))});
    }
    more = (frame.header.flags & kAgentFlagMore) != 0;
    PADDLE_TRY_STATUS(
        exchange_.check_list(entries.size(), kFilesListedMax, more && reply.files().empty()));
  }
  return entries;
}

// `written` tells of our disk; the rest of the file is read even when that is full.
Status FileSync::receive_file(const PathRequest& request, int fd, Status& written) {
  PADDLE_TRY_STATUS(exchange_.send(AGENT_GET, request, {}, kAnswerDeadline));
  std::uint64_t received = 0;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_GET, kAnswerDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<GetReply>(frame));
    received += frame.tail.size();
    more = (frame.header.flags & kAgentFlagMore) != 0;
    // Every chunk but an empty file's has bytes, so this also bounds how many there are.
    if (received > reply.size() || (more && frame.tail.empty())) {
      return exchange_.lose(Error{Errc::kData, request.path() + " does not end as announced", ""});
    }
    if (written) written = write_all(fd, frame.tail, TimePoint::max());
  }
  return {};
}

Status FileSync::fetch(const std::string& remote_path, const std::string& local_path) {
  const std::string temporary = local_path + ".part";
  const UniqueFd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return exchange_.named(system_error(Errc::kResource, "create " + temporary));
  PathRequest request;
  request.set_path(remote_path);
  Status written;
  if (Status got = receive_file(request, fd.get(), written); !got) {
    ::unlink(temporary.c_str());
    return got;
  }
  if (written && ::rename(temporary.c_str(), local_path.c_str()) == 0) return {};
  Error error = written ? system_error(Errc::kResource, "rename " + temporary)
                        : Error{Errc::kResource, temporary + ": " + written.error().message, ""};
  ::unlink(temporary.c_str());
  return exchange_.named(std::move(error));
}

}  // namespace paddle::remote
