#include "remote/exchange/streamed_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "proto/agent.pb.h"
#include "proto/content.h"
#include "proto/frame_stream.h"
#include "remote/exchange/exchange.h"

namespace paddle::remote {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

// Between two frames of an answer.
constexpr Duration kAnswerDeadline = std::chrono::seconds(30);
constexpr std::size_t kFilesListedMax = 1'000'000;
constexpr std::size_t kListBytesMax = 64U << 20U;
constexpr std::size_t kNameShownBytes = 200;
constexpr std::size_t kFetchesInFlight = 8;  // few enough for the socket to buffer the requests

// The paths become files on this machine: each must be safe, printable, unique, and no other's
// folder.
Status check_names(const std::vector<remote::FileEntry>& entries) {
  const auto refuse = [](const std::string& path, const char* why) {
    return Error{Errc::kData,
                 "it lists '" + escape_control(path.substr(0, kNameShownBytes)) + "': " + why,
                 "something on the node makes files of such names; remove them there"};
  };
  std::set<std::string_view> names;
  for (const remote::FileEntry& entry : entries) {
    if (!SafePath::parse(entry.path)) return refuse(entry.path, "an unsafe path");
    if (std::ranges::any_of(entry.path, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return refuse(entry.path, "control characters");
    if (!names.insert(entry.path).second) return refuse(entry.path, "the same name twice");
  }
  for (const remote::FileEntry& entry : entries) {
    for (auto slash = entry.path.find('/'); slash != std::string::npos;
         slash = entry.path.find('/', slash + 1)) {
      if (names.contains(std::string_view(entry.path).substr(0, slash)))
        return refuse(entry.path, "a file within a file");
    }
  }
  return {};
}

constexpr Duration kRequestDeadline = std::chrono::seconds(30);
// Beyond the command's own timeout: for SIGTERM, its grace, and the reply.
constexpr Duration kEndDeadline = std::chrono::seconds(15);

}  // namespace

Result<std::vector<remote::FileEntry>> NodeFiles::list(const std::string& folder, Listed listed) {
  PathRequest request;
  request.set_path(folder);
  request.set_without_hashes(listed == Listed::kSizesOfAll);
  request.set_own_files(listed == Listed::kOwnFiles);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_LIST, request, {}, kAnswerDeadline));
  std::vector<remote::FileEntry> entries;
  std::size_t bytes = 0;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_LIST, kDiskDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ListReply>(frame));
    for (const auto& file : reply.files()) {
      entries.push_back({file.path(), file.size(), to_hex(as_bytes(file.sha256()))});
    }
    more = (frame.header.flags & kAgentFlagMore) != 0;
    bytes += frame.head.size();
    const bool is_endless = bytes > kListBytesMax || (more && reply.files().empty());
    PADDLE_TRY_STATUS(exchange_.check_list(entries.size(), kFilesListedMax, is_endless));
  }
  if (Status status = check_names(entries); !status)
    return exchange_.named(std::move(status).error());
  return entries;
}

// `written` gets the first error of our disk; the rest of the file is read nevertheless. No byte
// beyond the size that the node listed is taken.
Status NodeFiles::receive_file(const FetchItem& item, int fd, Status& written) {
  const std::string& path = item.remote_path;
  Sha256 hash;
  std::uint64_t left = item.size;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_GET, kAnswerDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<GetReply>(frame));
    Bytes raw;
    if (reply.raw_bytes() > 0 && reply.raw_bytes() <= kAgentChunkBytes) {
      auto unpacked = decompress(frame.tail, reply.raw_bytes());
      if (!unpacked) return exchange_.lose(std::move(unpacked).error().with(path));
      raw = *std::move(unpacked);
    }
    const ByteSpan part = reply.raw_bytes() > 0 ? ByteSpan(raw) : ByteSpan(frame.tail);
    more = (frame.header.flags & kAgentFlagMore) != 0;
    // Only an empty file has an empty chunk, which bounds the number of chunks.
    const bool ends = !more && part.size() == left;
    const bool goes_on = more && !part.empty() && part.size() < left;
    if (!ends && !goes_on) {
      return exchange_.lose(Error{
          Errc::kData, fmt::format("{} does not end after the {} bytes listed", path, item.size),
          "look at the node: it does not send what it lists"});
    }
    left -= part.size();
    hash.update(part);
    if (written) written = write_all(fd, part, TimePoint::max());
  }
  if (to_hex(hash.finish()) == item.sha256) return {};
  return exchange_.named(Error{
      Errc::kData, fmt::format("{}: the {} bytes that came are not those listed", path, item.size),
      "it may have changed meanwhile: try again; if that is no help, look at the node"});
}

namespace {

constexpr std::string_view kPartPrefix = ".paddlectl-";
constexpr std::string_view kPartSuffix = ".part";

// Hidden: no file that a node gives can have this name. No other file that is fetched at the same
// time has it, by this program or another one, on this machine or another one that has the folder
// too: one that wrote into the part of another would give its file a wrong content.
std::string temporary_name(const std::string& path) {
  static const std::uint32_t of_program = std::random_device()();
  static std::atomic<std::uint64_t> number = 0;
  return fmt::format("{}{}{}-{:08x}-{}{}", path.substr(0, path.rfind('/') + 1), kPartPrefix,
                     ::getpid(), of_program, ++number, kPartSuffix);
}

}  // namespace

bool is_part_of_fetch(std::string_view name) {
  return name.starts_with(kPartPrefix) && name.ends_with(kPartSuffix);
}

Status NodeFiles::fetch_one(const FetchItem& item) {
  const std::string temporary = temporary_name(item.local_path);
  const UniqueFd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  // The reply was requested and must be read even when the file cannot be created.
  Status written;
  if (!fd) written = system_error(Errc::kResource, "create a file beside it");
  const Status got = receive_file(item, fd.get(), written);
  if (got && written && ::rename(temporary.c_str(), item.local_path.c_str()) == 0) return {};
  Error error = !got ? got.error()
                : written
                    ? system_error(Errc::kResource, "rename to " + item.local_path)
                    : Error{Errc::kResource, item.local_path + ": " + written.error().message, ""};
  if (fd) ::unlink(temporary.c_str());
  return got ? exchange_.named(std::move(error)) : std::move(error);
}

Status NodeFiles::fetch(const std::vector<FetchItem>& items) {
  Status first;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    // Requests are sent ahead, so that the node never waits for the next one.
    for (; first && asked < items.size() && asked < i + kFetchesInFlight; ++asked) {
      PathRequest request;
      request.set_path(items[asked].remote_path);
      request.set_size(items[asked].size);
      first = exchange_.send(AGENT_GET, request, {}, kAnswerDeadline);
    }
    if (i >= asked || exchange_.broken()) break;
    Status got = fetch_one(items[i]);
    if (!got && first) first = std::move(got);
  }
  return first;
}

Result<CommandEnd> run_command(Exchange& exchange, const CommandSpec& command,
                               const CommandOutput& output,
                               const std::function<bool()>& interrupted) {
  RunRequest request;
  for (const std::string& argument : command.arguments) request.add_arguments(argument);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(command.timeout).count();
  request.set_timeout_ms(static_cast<std::uint64_t>(std::max<long long>(ms, 0)));
  PADDLE_TRY_STATUS(exchange.send(AGENT_RUN, request, {}, kRequestDeadline));
  TimePoint end = TimePoint::max();
  if (ms > 0) end = SteadyClock().now() + command.timeout + kEndDeadline;
  for (bool asked = false;;) {
    if (!asked && interrupted && interrupted()) {
      PADDLE_TRY_STATUS(exchange.send(AGENT_RUN_END, CopyReply(), {}, kRequestDeadline));
      asked = true;
      end = SteadyClock().now() + kEndDeadline;
    }
    // A node that goes on to send something does not put the end off.
    if (SteadyClock().now() >= end) {
      return exchange.lose(Error{Errc::kUnreachable, "no end of the command before the deadline"});
    }
    if (!exchange.wait(kInterruptedEvery)) continue;
    PADDLE_TRY(const Frame frame, exchange.receive(AGENT_RUN, kRequestDeadline));
    PADDLE_TRY(const auto reply, exchange.parse<RunReply>(frame));
    if ((frame.header.flags & kAgentFlagMore) == 0) {
      return CommandEnd{reply.exit_code(), reply.signal(), reply.timed_out()};
    }
    if (!asked) output(as_text(frame.tail), reply.is_stderr());
  }
}

}  // namespace paddle::remote
