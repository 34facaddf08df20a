#include "remote/client/streamed_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/holes.h"
#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "proto/content.h"
#include "remote/client/exchange.h"

namespace paddle::remote {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

// The longest time between two frames of an answer.
constexpr Duration kAnswerDeadline = std::chrono::seconds(30);
constexpr std::size_t kFilesListedMax = 1'000'000;
constexpr std::size_t kListBytesMax = 64U << 20U;
constexpr std::size_t kNameShownBytes = 200;
constexpr std::size_t kLinkBytesMax = 4096;
constexpr std::size_t kTreePartBytes = 512U << 10U;
constexpr std::size_t kTreePartEntryBytes = 8;  // upper bound of the encoding around an entry
constexpr std::size_t kTreeBytesMax = 512U << 20U;
constexpr std::uint64_t kOutputWindow = 1U << 20U;  // of a command, sent and not used yet
constexpr std::size_t kFetchesInFlight = 8;  // few enough for the socket to buffer the requests

Error refuse_name(const std::string& path, const char* why) {
  return Error{Errc::kData,
               "it lists '" + escape_control(path.substr(0, kNameShownBytes)) + "': " + why,
               "a program on the node creates files with such names; remove them there"};
}

// Checks a path that this machine will use: it must be safe, printable and unique.
Status check_name(const std::string& path, std::set<std::string_view>& names) {
  if (!SafePath::parse(path)) return refuse_name(path, "it is an unsafe path");
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return refuse_name(path, "the name contains control characters");
  if (!names.insert(path).second) return refuse_name(path, "the name is listed twice");
  return {};
}

// Checks every path, and that no file is the folder of another one.
Status check_names(const std::vector<remote::FileEntry>& entries) {
  std::set<std::string_view> names;
  for (const remote::FileEntry& entry : entries) {
    if (entry.kind != remote::FileEntry::Kind::kOddName)
      PADDLE_TRY_STATUS(check_name(entry.path, names));
  }
  for (const remote::FileEntry& entry : entries) {
    for (auto slash = entry.path.find('/'); slash != std::string::npos;
         slash = entry.path.find('/', slash + 1)) {
      if (names.contains(std::string_view(entry.path).substr(0, slash)))
        return refuse_name(entry.path, "it is below a file, not a folder");
    }
  }
  return {};
}

// Checks that all entries are below the first one, and in folders that precede them.
Status check_tree(const CopyTree& tree) {
  std::set<std::string_view> names, folders;
  for (const CopiedEntry& copied : tree) {
    const TreeEntry& entry = copied.entry;
    PADDLE_TRY_STATUS(check_name(entry.path, names));
    const std::size_t slash = entry.path.rfind('/');
    const bool is_first = &copied == &tree.front();
    if (is_first != (slash == std::string::npos) ||
        (!is_first && !folders.contains(std::string_view(entry.path).substr(0, slash)))) {
      return refuse_name(entry.path, "its folder is not listed");
    }
    if (entry.is_folder()) folders.insert(entry.path);
    const bool has_target = !entry.link.empty() && entry.link.size() <= kLinkBytesMax &&
                            entry.link.find('\0') == std::string::npos;
    if (entry.kind == TreeEntry::Kind::kLink && !has_target)
      return refuse_name(entry.path, "the link has no target");
  }
  return {};
}

// Receives a frame of the answer to a copy; Ctrl-C ends the wait.
Result<Frame> receive(Exchange& exchange, const std::function<bool()>& interrupted, AgentKind kind,
                      Duration patience) {
  const TimePoint end = SteadyClock().now() + patience;
  for (bool begins = !interrupted; !begins && SteadyClock().now() < end;) {
    if (interrupted()) {
      return exchange.give_up(
          Error{Errc::kInterrupted, "the copy was interrupted", "completed files are kept"});
    }
    begins = exchange.wait(kInterruptedEvery);
  }
  return exchange.receive(kind, patience);
}

remote::FileEntry from_wire(const wire::agent::FileEntry& file) {
  using Kind = remote::FileEntry::Kind;
  if (file.odd_name())
    return {escape_control(file.path().substr(0, kNameShownBytes)), 0, "", false, Kind::kOddName};
  if (file.empty_folder()) return {file.path(), 0, "", false, Kind::kEmptyFolder};
  if (!file.link().empty()) return {file.path(), 0, "", false, Kind::kLink, file.link()};
  return {file.path(), file.size(), to_hex(as_bytes(file.sha256())), file.executable()};
}

constexpr Duration kRequestDeadline = std::chrono::seconds(30);
// Added to the command's own timeout: for SIGTERM, its grace, and the reply.
constexpr Duration kEndDeadline = std::chrono::seconds(15);

}  // namespace

Result<std::vector<remote::FileEntry>> NodeFiles::list(const std::string& folder, Listed listed) {
  PathRequest request;
  request.set_path(folder);
  request.set_without_hashes(listed == Listed::kSizesOfAll || listed == Listed::kAllKinds);
  request.set_all_kinds(listed == Listed::kAllKinds);
  request.set_own_files(listed == Listed::kOwnFiles);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_LIST, request, {}, kAnswerDeadline));
  std::vector<remote::FileEntry> entries;
  std::size_t bytes = 0;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, exchange_.receive(AGENT_LIST, kDiskDeadline));
    PADDLE_TRY(const auto reply, exchange_.parse<ListReply>(frame));
    for (const auto& file : reply.files()) {
      remote::FileEntry entry = from_wire(file);
      const bool is_wanted =
          listed == Listed::kAllKinds || entry.kind == remote::FileEntry::Kind::kFile;
      if (is_wanted) entries.push_back(std::move(entry));
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

// `written` receives the first error of our disk; the rest of the file is read nevertheless. No
// byte beyond the size that the node listed is accepted.
Status NodeFiles::receive_file(const FetchItem& item, int fd, Status& written) {
  const std::string& path = item.remote_path;
  Sha256 hash;
  std::uint64_t left = item.size;
  for (bool more = true; more;) {
    PADDLE_TRY(const Frame frame, receive(exchange_, interrupted_, AGENT_GET, kAnswerDeadline));
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
          Errc::kData, fmt::format("{} does not have the listed size of {} bytes", path, item.size),
          "check the node: it sends content that does not match its list"});
    }
    if (written && !write_with_holes(fd, part, item.size - left))
      written = system_error(Errc::kResource, "write");
    left -= part.size();
    hash.update(part);
  }
  if (to_hex(hash.finish()) == item.sha256) return {};
  return exchange_.named(
      Error{Errc::kData,
            fmt::format("{}: the {} bytes received do not match the listed hash", path, item.size),
            "the file may have changed during the copy: try again; if it happens again, check the "
            "disk of the node"});
}

namespace {

constexpr std::string_view kPartPrefix = ".paddlectl-";
constexpr std::string_view kPartSuffix = ".part";

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
}

Result<UniqueFd> open_folder_of(const FetchItem& item) {
  const std::string above = folder_of(item.local_path);
  if (item.folder && !above.empty()) {
    PADDLE_TRY(const SafePath safe, SafePath::parse(above.substr(0, above.size() - 1)));
    return safe.open_directory(item.folder->get());
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  UniqueFd folder(item.folder ? ::openat(item.folder->get(), ".", kFlags)
                              : ::open(above.empty() ? "." : above.c_str(), kFlags));
  if (!folder) return system_error(Errc::kResource, "open " + above);
  return folder;
}

}  // namespace

bool is_part_of_fetch(std::string_view name) {
  return name.starts_with(kPartPrefix) && name.ends_with(kPartSuffix);
}

Status NodeFiles::fetch_one(const FetchItem& item) {
  const auto folder = open_folder_of(item);
  Result<DraftFile> draft = folder ? DraftFile::create(folder->get(), item.executable ? 0755 : 0644)
                                   : Result<DraftFile>(folder.error());
  // The reply was requested and must be read even when the file cannot be created.
  Status written;
  if (!draft) written = draft.error();
  Status got = receive_file(item, draft ? draft->fd() : -1, written);
  if (!got) return got;
  if (written) {
    written = draft->commit(item.local_path.substr(folder_of(item.local_path).size()), item.mode,
                            item.mtime_ns);
  }
  if (written) return {};
  Error error = std::move(written).error().with(item.local_path);
  error.code = Errc::kResource;
  return exchange_.named(std::move(error));
}

Status NodeFiles::fetch(const std::vector<FetchItem>& items) {
  Status first;
  std::size_t asked = 0;
  std::set<std::string> folders;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (folders.insert(folder_of(items[i].local_path)).second) {
      if (const auto folder = open_folder_of(items[i])) remove_old_drafts(folder->get());
    }
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

namespace {

CopyReply printable(CopyReply reply) {
  make_printable(*reply.mutable_left_out_names());
  make_printable(*reply.mutable_unreadable_names());
  return reply;
}

CopyEntry to_wire(const CopiedEntry& copied) {
  CopyEntry entry;
  entry.set_path(copied.entry.path);
  entry.set_kind(static_cast<std::uint32_t>(copied.entry.kind));
  entry.set_mode(copied.entry.mode);
  entry.set_mtime_ns(copied.entry.mtime_ns);
  entry.set_link(copied.entry.link);
  entry.set_number(copied.number);
  return entry;
}

CopiedEntry from_wire(const CopyEntry& entry) {
  const auto kind = entry.kind() <= static_cast<std::uint32_t>(TreeEntry::Kind::kLink)
                        ? static_cast<TreeEntry::Kind>(entry.kind())
                        : TreeEntry::Kind::kFile;
  return {{entry.path(), kind, entry.mode() & kKeptModeBits, entry.mtime_ns(),
           kind == TreeEntry::Kind::kFile ? entry.size() : 0, entry.link()},
          entry.number(),
          to_hex(as_bytes(entry.sha256()))};
}

}  // namespace

Result<CopyReply> NodeFiles::export_to(const CopyTree& tree, const std::string& inside,
                                       const std::string& outside) {
  for (std::size_t at = 0;;) {
    wire::agent::CopyTree part;
    for (std::size_t bytes = 0; at < tree.size() && bytes < kTreePartBytes; ++at) {
      *part.add_entries() = to_wire(tree[at]);
      bytes += part.entries(part.entries_size() - 1).ByteSizeLong() + kTreePartEntryBytes;
    }
    CopyRequest request;
    request.set_inside(inside);
    request.set_outside(outside);
    request.set_more(at < tree.size());
    PADDLE_TRY_STATUS(
        exchange_.send(AGENT_COPY, request, as_bytes(part.SerializeAsString()), kAnswerDeadline));
    PADDLE_TRY(const Frame frame, receive(exchange_, interrupted_, AGENT_COPY, kDiskDeadline));
    PADDLE_TRY(auto reply, exchange_.parse<CopyReply>(frame));
    if (!request.more()) return printable(std::move(reply));
  }
}

Result<CopyReply> NodeFiles::import_from(const std::string& outside, const std::string& inside,
                                         CopyTree& tree) {
  CopyRequest request;
  request.set_inside(inside);
  request.set_outside(outside);
  request.set_bring_in(true);
  PADDLE_TRY_STATUS(exchange_.send(AGENT_COPY, request, {}, kAnswerDeadline));
  std::size_t bytes = 0;
  for (;;) {
    PADDLE_TRY(const Frame frame, receive(exchange_, interrupted_, AGENT_COPY, kDiskDeadline));
    PADDLE_TRY(auto reply, exchange_.parse<CopyReply>(frame));
    wire::agent::CopyTree part;
    if (!part.ParseFromArray(frame.tail.data(), static_cast<int>(frame.tail.size())))
      return exchange_.lose(Error{Errc::kData, "malformed reply from the agent", ""});
    for (const CopyEntry& entry : part.entries()) tree.push_back(from_wire(entry));
    const bool more = (frame.header.flags & kAgentFlagMore) != 0;
    bytes += frame.tail.size();
    const bool is_endless = bytes > kTreeBytesMax || (more && part.entries().empty());
    PADDLE_TRY_STATUS(exchange_.check_list(tree.size(), kFilesListedMax, is_endless));
    if (more) continue;
    if (Status good = check_tree(tree); !good) return exchange_.named(std::move(good).error());
    return printable(std::move(reply));
  }
}

namespace {

long long timeout_ms(const CommandSpec& command) {
  return std::chrono::ceil<std::chrono::milliseconds>(command.timeout).count();
}

RunRequest to_wire(const CommandSpec& command) {
  RunRequest request;
  for (const std::string& argument : command.arguments) request.add_arguments(argument);
  request.mutable_environment()->insert(command.environment.begin(), command.environment.end());
  request.set_timeout_ms(static_cast<std::uint64_t>(std::max<long long>(timeout_ms(command), 0)));
  request.set_window(kOutputWindow);
  return request;
}

// Hands a command's output to its consumer on another thread, so that the channel is read however
// slow the consumer is: the program of a launcher may end if its output is not read for a while,
// as kubectl does after a minute. kOutputWindow bounds what waits here.
class OutputQueue {
 public:
  explicit OutputQueue(const CommandOutput& output)
      : thread_([this, &output](const std::stop_token& stop) { hand_on(stop, output); }) {}

  void add(std::string_view text, bool is_stderr) {
    const std::lock_guard lock(mutex_);
    if (parts_.empty() || parts_.back().is_stderr != is_stderr) parts_.push_back({"", is_stderr});
    parts_.back().text += text;
    changed_.notify_all();
  }
  // Bytes that the consumer has used since the last call, once they are worth a message.
  std::uint64_t take_used() {
    const std::lock_guard lock(mutex_);
    return used_ < kOutputWindow / 4 ? 0 : std::exchange(used_, 0);
  }
  // Waits until the consumer has used all of it.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return parts_.empty() && !is_busy_; });
  }
  void discard() {
    const std::lock_guard lock(mutex_);
    parts_.clear();
  }

 private:
  struct Part {
    std::string text;
    bool is_stderr = false;
  };

  void hand_on(const std::stop_token& stop, const CommandOutput& output) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !parts_.empty(); })) {
      const Part part = std::move(parts_.front());
      parts_.pop_front();
      is_busy_ = true;
      lock.unlock();
      output(part.text, part.is_stderr);
      lock.lock();
      is_busy_ = false;
      used_ += part.text.size();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Part> parts_;
  std::uint64_t used_ = 0;
  bool is_busy_ = false;  // the consumer has a part
  std::jthread thread_;   // last, so that it ends first
};

}  // namespace

Status check_size(const CommandSpec& command) {
  return check_request("the arguments", to_wire(command));
}

Result<CommandEnd> run_command(Exchange& exchange, const CommandSpec& command,
                               const CommandOutput& output,
                               const std::function<bool()>& interrupted) {
  const RunRequest request = to_wire(command);
  const long long ms = timeout_ms(command);
  PADDLE_TRY_STATUS(exchange.send(AGENT_RUN, request, {}, kRequestDeadline));
  TimePoint end = TimePoint::max();
  if (ms > 0) end = SteadyClock().now() + command.timeout + kEndDeadline;
  OutputQueue queue(output);
  for (bool asked = false;;) {
    if (!asked && interrupted && interrupted()) {
      PADDLE_TRY_STATUS(exchange.send(AGENT_RUN_END, CopyReply(), {}, kRequestDeadline));
      asked = true;
      queue.discard();
      end = SteadyClock().now() + kEndDeadline;
    }
    // Checked for each frame, so that a node that continues to send cannot postpone the end.
    if (SteadyClock().now() >= end) {
      return exchange.lose(
          Error{Errc::kUnreachable, "the command did not end before the deadline"});
    }
    RunRead used;
    used.set_bytes(queue.take_used());
    if (used.bytes() > 0 && !asked)
      PADDLE_TRY_STATUS(exchange.send(AGENT_RUN_READ, used, {}, kRequestDeadline));
    if (!exchange.wait(kInterruptedEvery)) continue;
    PADDLE_TRY(const Frame frame, exchange.receive(AGENT_RUN, kRequestDeadline));
    PADDLE_TRY(const auto reply, exchange.parse<RunReply>(frame));
    if ((frame.header.flags & kAgentFlagMore) == 0) {
      queue.finish();
      return CommandEnd{reply.exit_code(), reply.signal(), reply.timed_out(),
                        escape_control(reply.next_step())};
    }
    if (!asked) queue.add(as_text(frame.tail), reply.is_stderr());
  }
}

}  // namespace paddle::remote
