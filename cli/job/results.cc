#include "cli/job/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/cluster/cluster_file.h"
#include "cli/job/folders.h"
#include "cli/job/job_claim.h"
#include "cli/job/result_files.h"
#include "cli/job/whole_snapshot.h"
#include "cli/watch/process_state.h"
#include "remote/client/push_source.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

// The output folder.

Error not_written(const fs::path& place, bool is_link) {
  return Error{Errc::kData,
               fmt::format("{} {}", place.string(),
                           is_link ? "is a link, and results are not written through links"
                                   : "belongs to another user"),
               "remove it, or give the full path of another folder"};
}

// kData: a folder on the way from `base` to `folder` is a link, or belongs to another user.
Status check_way(const fs::path& base, const fs::path& folder) {
  fs::path place = base.lexically_normal();
  for (const fs::path& name : folder.lexically_normal().lexically_relative(place)) {
    place /= name;
    struct stat info {};
    if (name == "." || ::lstat(place.c_str(), &info) != 0) continue;
    const bool is_link = S_ISLNK(info.st_mode);
    if (is_link || !remote::is_trusted_owner(info.st_uid)) return not_written(place, is_link);
  }
  return {};
}

Status create(const fs::path& folder, const std::string& hint) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Error{Errc::kResource, fmt::format("create {}: {}", folder.string(), error.message()),
               hint};
}

// kAuth: another user can write to a folder above, and could replace `folder` by a link to any
// other folder. If `folder` does not exist yet, checks the nearest parent that does.
Status check_owners(fs::path folder, const std::string& hint) {
  std::error_code ignored;
  while (folder.has_relative_path() && !fs::exists(fs::symlink_status(folder, ignored)))
    folder = folder.parent_path();
  Status trusted = remote::check_trusted(folder.empty() ? "." : folder.string());
  if (trusted) return {};
  Error error = std::move(trusted).error();
  error.hint = hint;
  return error;
}

Status check_folder(const fs::path& base, const fs::path& folder, const std::string& hint) {
  PADDLE_TRY_STATUS(check_way(base, folder));
  return check_owners(folder, hint);
}

// Where the way to a folder of results begins: the current directory, or `output` if it is not
// below that. A link that the user names outside the current directory is the user's own.
fs::path base_of(const Context& context, const fs::path& output) {
  const fs::path inside = output.lexically_relative(context.directory);
  return !inside.empty() && *inside.begin() != ".." ? fs::path(context.directory) : output;
}

}  // namespace

std::string shown_path(const Context& context, const std::string& path) {
  const fs::path inside = fs::path(path).lexically_relative(context.directory);
  const bool below = !context.console.json() && !inside.empty() && *inside.begin() != "..";
  return (below ? inside : fs::path(path).lexically_normal()).string();
}

Status make_folder(const fs::path& base, const fs::path& folder, const std::string& hint) {
  PADDLE_TRY_STATUS(check_folder(base, folder, hint));
  PADDLE_TRY_STATUS(create(folder, hint));
  return check_owners(folder, hint);
}

Status check_output_folder(const Context& context, const std::string& output,
                           const std::string& name, const std::string& hint) {
  const fs::path above = fs::path(output).lexically_normal();
  if (!is_plain_name(name))
    return Error{Errc::kData, fmt::format("'{}' cannot be a folder's name", name), hint};
  return check_folder(base_of(context, above), above / name, hint);
}

Result<fs::path> make_output_folder(const Context& context, const std::string& output,
                                    const std::string& name, const std::string& hint) {
  PADDLE_TRY_STATUS(check_output_folder(context, output, name, hint));
  const fs::path folder = fs::path(output) / name;
  PADDLE_TRY_STATUS(create(folder, hint));
  PADDLE_TRY_STATUS(check_owners(folder.lexically_normal(), hint));
  return folder;
}

// The lock of an output folder.

namespace {

constexpr const char* kLock = ".paddlectl-lock";  // hidden: no node may give such a file
constexpr std::size_t kPidBytesMax = 20;
constexpr auto kLockLookPeriod = std::chrono::milliseconds(100);

// Whether the lock file still has its name; a lock on a removed file protects nothing.
bool is_there(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

std::string holder_of(int file) {
  char text[kPidBytesMax];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  std::string pid(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos
             ? ""
             : fmt::format(" (pid {})", pid);
}

}  // namespace

Result<OutputLock> OutputLock::take(Context& context, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kLock;
  for (bool is_told = false;;) {
    UniqueFd file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
    if (!file) return OutputLock(path, UniqueFd());
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!is_there(file.get())) continue;
      // The pid is for a message, so a full disk is no reason to refuse the lock.
      if (::ftruncate(file.get(), 0) == 0)
        (void)::dprintf(file.get(), "%s", std::to_string(::getpid()).c_str());
      return OutputLock(path, std::move(file));
    }
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return OutputLock(path, UniqueFd());
    if (context.interrupted()) {
      return Error{Errc::kInterrupted,
                   fmt::format("no longer waiting for the paddlectl that writes to {}",
                               shown_path(context, folder.string())),
                   ""};
    }
    if (!is_told) {
      context.console.note(fmt::format("another paddlectl{} writes to {}: waiting for its end",
                                       holder_of(file.get()),
                                       shown_path(context, folder.string())));
      is_told = true;
    }
    context.pause(kLockLookPeriod);
  }
}

OutputLock::~OutputLock() {
  if (file_ && is_there(file_.get())) ::unlink(path_.c_str());
}

// Room on the disk.

namespace {

// Free bytes on the disk of `folder`; UINT64_MAX if the system reports none.
std::uint64_t free_bytes_at(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, error);
  return error ? UINT64_MAX : space.available;
}

// Nodes report these sizes, so their sum must not wrap around to a small number.
std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, UINT64_MAX - a);
}

}  // namespace

DiskRoom::DiskRoom(const fs::path& folder, std::string shown)
    : shown_(std::move(shown)), free_(free_bytes_at(folder)) {}

Status DiskRoom::reserve(const std::string& node, const std::vector<remote::FetchItem>& files) {
  std::uint64_t bytes = 0;
  for (const remote::FetchItem& file : files) bytes = sum(bytes, file.size);
  const std::lock_guard lock(mutex_);
  const std::uint64_t left = free_ - reserved_;
  if (bytes <= left) {
    reserved_ += bytes;
    return {};
  }
  const remote::FetchItem& largest =
      *std::ranges::max_element(files, {}, [](const auto& file) { return file.size; });
  return Error{
      Errc::kResource,
      fmt::format("node {}: no room for its {}: {} has {} free{}, {} too little; the largest file "
                  "is {} with {}",
                  node, human_bytes(bytes), shown_, human_bytes(left),
                  reserved_ > 0 ? " beside the files of other nodes" : "",
                  human_bytes(bytes - left),
                  largest.folder ? escape_control(largest.local_path) : largest.remote_path,
                  human_bytes(largest.size)),
      "free some space, choose another folder, or fetch less; if that size is wrong, check the "
      "node"};
}

// The record of a fetch.

namespace {

constexpr std::size_t kRecordBytesMax = 64U << 20U;

std::string record_path(const std::string& job) {
  return job_folder(job) + "/fetched";
}

}  // namespace

std::int64_t latest_start(const std::vector<ProcessOnNode>& processes, std::size_t member,
                          const std::string& job) {
  std::int64_t latest = 0;
  for (const ProcessOnNode& process : processes) {
    if (process.member == member && process.status.job == job)
      latest = std::max(latest, process.status.started_unix_ms);
  }
  return latest;
}

FetchRecord read_fetch_record(remote::AgentClient& client, const std::string& job,
                              std::int64_t started_unix_ms) {
  FetchRecord record{started_unix_ms, {}};
  std::istringstream lines(client.read_whole_file(record_path(job), kRecordBytesMax).value_or(""));
  std::int64_t started = 0;
  std::string line;
  std::getline(lines, line);
  if (!(std::istringstream(line) >> started) || started != started_unix_ms) return record;
  while (std::getline(lines, line)) {
    std::uint64_t size = 0;
    std::istringstream fields(line);
    if (!(fields >> size) || fields.get() != ' ') continue;
    std::string path;
    std::getline(fields, path);
    record.sizes[path] = size;
  }
  return record;
}

Status write_fetch_record(remote::AgentClient& client, const std::string& job,
                          const FetchRecord& record, const std::string& folder) {
  std::string text = fmt::format("{}\n", record.started_unix_ms);
  for (const auto& [path, size] : record.sizes) text += fmt::format("{} {}\n", size, path);
  const std::string here = fmt::format("{}/.fetched-{}", folder, client.node().name);
  PADDLE_TRY_STATUS(replace_file(here, as_bytes(text), 0644));
  remote::PushSource source;
  const auto pushed = client.push({{here, record_path(job)}}, source, nullptr);
  std::error_code ignored;
  std::filesystem::remove(here, ignored);
  return pushed ? Status() : pushed.error();
}

// The fetch.

namespace {

constexpr const char* kStillThere =
    "the results are still on the nodes: paddlectl fetch --output <folder>";
constexpr std::size_t kNamesShownMax = 5;

// Whether the file is an index beside a log: its offset after rotation, or the times of its lines.
// Only the agent reads these.
bool is_log_index(const std::string& path) {
  return path.ends_with(".log.base") || path.ends_with(".log.times") ||
         path.ends_with(".log.times.1");
}

bool is_here_in_size(const fs::path& target, std::uint64_t size) {
  std::error_code error;
  return fs::file_size(target, error) == size && !error;
}

// Whether the file is here with the same content.
bool is_here(const remote::FetchItem& file) {
  const auto path = SafePath::parse(file.local_path);
  const auto content = path ? path->open_read(file.folder->get()) : path.error();
  struct stat info {};
  if (!content || ::fstat(content->get(), &info) != 0 ||
      static_cast<std::uint64_t>(info.st_size) != file.size) {
    return false;
  }
  const auto digest = sha256_of_fd(content->get(), file.size);
  return digest && to_hex(*digest) == file.sha256;
}

// An output folder, opened once. Files that nodes name are written below it, and through no link.
struct OutputFolder {
  fs::path path;
  std::shared_ptr<const UniqueFd> fd;
};

Result<OutputFolder> open_output(const fs::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error(Errc::kResource, "open " + folder.string());
  return OutputFolder{folder, std::make_shared<const UniqueFd>(std::move(fd))};
}

// Makes the folders above a file that a node names. kData: the name leads out of the output folder,
// or a folder on the way is a link or belongs to another user.
Status make_above(const OutputFolder& output, const std::string& name, const std::string& hint) {
  PADDLE_TRY(const SafePath safe, SafePath::parse(name));
  UniqueFd at(::fcntl(output.fd->get(), F_DUPFD_CLOEXEC, 0));
  for (std::size_t begin = 0, end = 0; at && (end = name.find('/', begin)) != name.npos;
       begin = end + 1) {
    const std::string part = name.substr(begin, end - begin);
    const fs::path place = output.path / name.substr(0, end);
    if (::mkdirat(at.get(), part.c_str(), 0777) != 0 && errno != EEXIST) {
      Error error = system_error(Errc::kResource, "create " + place.string());
      error.hint = hint;
      return error;
    }
    struct stat info {};
    UniqueFd next(
        ::openat(at.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next && ::fstatat(at.get(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(info.st_mode)) {
      return not_written(place, true);
    }
    if (next && ::fstat(next.get(), &info) == 0 && !remote::is_trusted_owner(info.st_uid))
      return not_written(place, false);
    at = std::move(next);
    if (!at) return system_error(Errc::kResource, "create " + place.string());
  }
  return {};
}

using Listed = std::map<std::string, remote::FileEntry>;  // by path on the node

// Takes the hashes, and the sizes that belong to them, from the node, and removes from `files`
// those that are here with the same content. Reads only the folders of these files on the node.
Status settle_wanted(Member& member, std::vector<remote::FetchItem>& files, Listed& listed) {
  std::set<std::string> folders;
  for (const remote::FetchItem& file : files)
    folders.insert(fs::path(file.remote_path).parent_path());
  for (const std::string& folder : folders) {
    PADDLE_TRY(auto entries, member.client->list_own_files(folder));
    for (remote::FileEntry& entry : entries) listed[folder + "/" + entry.path] = std::move(entry);
  }
  for (remote::FetchItem& file : files) {
    const auto found = listed.find(file.remote_path);
    if (found == listed.end()) {
      return Error{Errc::kData,
                   fmt::format("node {}: {} no longer exists", member.spec.name, file.remote_path),
                   "it was removed during the fetch: fetch again"};
    }
    file.size = found->second.size;
    file.sha256 = found->second.sha256;
    file.executable = found->second.executable;
  }
  std::erase_if(files, is_here);
  return {};
}

// Leaves out the snapshots that are whole here and damaged on the node, and names them in `kept`.
void keep_whole(Member& member, const std::string& remote, const fs::path& folder,
                const Listed& listed, std::vector<remote::FetchItem>& files, std::string& kept) {
  std::map<std::string, bool> replaced;  // by snapshot; a fetch would replace it
  for (const remote::FetchItem& file : files) {
    if (!file.remote_path.starts_with(remote + "/")) continue;
    const std::string snapshot = snapshot_of(file.remote_path.substr(remote.size() + 1));
    std::error_code ignored;
    if (!snapshot.empty() && fs::exists(folder / file.local_path, ignored))
      replaced[snapshot] = true;
  }
  for (const auto& [snapshot, is] : replaced) {
    if (!damage_here((folder / snapshot).string()).empty()) continue;
    const std::string there = remote + "/" + snapshot;
    const auto manifest = snapshot::decode_manifest(manifest_on_node(*member.client, there));
    const std::string damage = damage_of(manifest, [&](const snapshot::FileEntry& file) {
      const auto found = listed.find(there + "/" + file.name);
      return found != listed.end() && found->second.size == file.size &&
             found->second.sha256 == to_hex(file.sha256);
    });
    if (damage.empty()) continue;
    std::erase_if(files, [&](const remote::FetchItem& file) {
      return file.remote_path.starts_with(there + "/");
    });
    kept += fmt::format("{}warning: {} of node {} is not fetched, {}: the copy here is kept",
                        kept.empty() ? "" : "\n", snapshot, member.spec.name, damage);
  }
}

std::set<std::string> snapshots_wanted(const std::string& remote,
                                       const std::vector<remote::FetchItem>& files) {
  std::set<std::string> names;
  for (const remote::FetchItem& file : files) {
    if (!file.remote_path.starts_with(remote + "/")) continue;
    const std::string name = snapshot_of(file.remote_path.substr(remote.size() + 1));
    if (!name.empty()) names.insert(name);
  }
  return names;
}

bool is_of_engine(const std::string& manifest) {
  return manifest.starts_with("snapshot ") || manifest.find("\nsha256 ") != manifest.npos;
}

// Adds "pass-00002 of node n-0 is not whole there: _w0 is damaged" for each snapshot whose files on
// the node have other hashes than its MANIFEST.
void note_damaged(Member& member, const std::string& remote, const std::set<std::string>& snapshots,
                  const Listed& listed, std::string& damaged) {
  for (const std::string& snapshot : snapshots) {
    const std::string there = remote + "/" + snapshot;
    const std::string manifest = manifest_on_node(*member.client, there);
    if (!is_of_engine(manifest)) continue;
    const auto is_right = [&](const snapshot::FileEntry& file) {
      const auto found = listed.find(there + "/" + file.name);
      if (found == listed.end()) return false;
      const std::string& sha256 = found->second.sha256;
      return found->second.size == file.size && (sha256.empty() || sha256 == to_hex(file.sha256));
    };
    const std::string damage = damage_of(snapshot::decode_manifest(manifest), is_right);
    if (damage.empty()) continue;
    damaged += fmt::format("{}{} of node {} is not whole there: {}", damaged.empty() ? "" : "\n",
                           snapshot, member.spec.name, damage);
  }
}

// The error for damaged snapshots, returned after the rest was fetched.
Error damage_error(const std::vector<std::string>& damaged) {
  std::string text;
  for (const std::string& of_node : damaged) {
    if (!of_node.empty()) text += (text.empty() ? "" : "\n") + of_node;
  }
  return {Errc::kData, text + "; it was fetched as it is",
          "another pass may be complete: paddlectl fetch --pass all, then paddle verify; paddlectl "
          "train --resume uses the newest complete one"};
}

// Adds the entries to `wanted`. `prefix`: put before the names of the files, below `folder`.
Status add_wanted(Member& member, const std::string& remote, const OutputFolder& folder,
                  const std::string& prefix, const std::vector<remote::FileEntry>& entries,
                  std::vector<remote::FetchItem>& wanted) {
  for (const remote::FileEntry& entry : entries) {
    if (is_log_index(entry.path)) continue;
    // An unsafe path is refused below, by make_above().
    if (is_hidden(entry.path) && SafePath::parse(entry.path)) continue;
    PADDLE_TRY_STATUS(
        make_above(folder, prefix + entry.path, kStillThere).with("node " + member.spec.name));
    wanted.push_back(
        {remote + "/" + entry.path, prefix + entry.path, entry.size, entry.sha256, folder.fd});
  }
  return {};
}

// Records the snapshots that stay on the nodes, and which of them are not here from an earlier
// fetch.
void add_left(const LeftSnapshots& left, const fs::path& folder, FetchStats& stats) {
  std::set<std::string> missing;
  for (const remote::FileEntry& file : left.files) {
    if (is_here_in_size(folder / file.path, file.size)) continue;
    missing.insert(snapshot_of(file.path));
    stats.missing_bytes += file.size;
  }
  stats.left = left.names;
  stats.missing.assign(missing.begin(), missing.end());
}

// Prints how much will be fetched. kResource: there is no room for it.
Status check_space(Context& context, ClusterSession& session, const fs::path& folder,
                   const std::vector<std::vector<remote::FetchItem>>& wanted) {
  const std::string where = shown_path(context, folder.string());
  DiskRoom room(folder, where);
  std::size_t files = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    PADDLE_TRY_STATUS(room.reserve(session.members()[i].spec.name, wanted[i]));
    files += wanted[i].size();
  }
  if (files == 0) return {};
  context.console.note(fmt::format("fetching {}, {}; {} free in {}", counted(files, "file"),
                                   human_bytes(room.reserved_bytes()),
                                   human_bytes(room.free_bytes()), where));
  return {};
}

std::string first_names(const std::vector<std::string>& names) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kNamesShownMax, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     names.size() > kNamesShownMax ? ", ..." : "");
}

void note_left_files(Context& context, const ResultFiles& found) {
  if (!found.doubled.empty()) {
    context.console.note(fmt::format(
        "{} saved on several nodes under one name, only that of the lowest trainer is fetched: {}; "
        "to keep all, give each trainer's file its own name, with its PADDLE_TRAINER_ID",
        counted(found.doubled.size(), "file"), first_names(found.doubled)));
  }
  if (found.refused.empty()) return;
  context.console.note(
      fmt::format("{} not fetched: {}; names that begin with '.', node_*, and the report's own "
                  "names are reserved, and control characters are refused; rename these files",
                  counted(found.refused.size(), "file"), first_names(found.refused)));
}

// The path below output/ to which the link leads, or "": only a relative path is followed, and ".."
// only at its beginning, where no folder on the way can be a link.
std::string target_of(const remote::FileEntry& link) {
  fs::path at = fs::path(link.path).parent_path();
  std::string rest = link.link;
  while (rest.starts_with("../") || rest.starts_with("./")) {
    if (rest[1] == '.' && at.empty()) return "";
    if (rest[1] == '.') at = at.parent_path();
    rest.erase(0, rest.find('/') + 1);
  }
  if (rest.ends_with('/')) rest.pop_back();
  const std::string path = (at / rest).string();
  return !rest.empty() && SafePath::parse(path) ? path : "";
}

// Removes from `found` the links that do not lead to a fetched file of the same node or to a folder
// with such files, and prints their names.
void leave_out_links(Context& context, ClusterSession& session, ResultFiles& found) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < found.without_content.size(); ++i) {
    std::set<std::string> files;
    for (const remote::FileEntry& file : found.of_member[i]) files.insert(file.path);
    std::erase_if(found.without_content[i], [&](const remote::FileEntry& entry) {
      if (entry.kind != remote::FileEntry::Kind::kLink) return false;
      const std::string target = target_of(entry);
      const auto inside = files.lower_bound(target + "/");
      const bool is_folder = inside != files.end() && inside->starts_with(target + "/");
      if (!target.empty() && (files.contains(target) || is_folder)) return false;
      left.push_back(fmt::format("{} of node {} to {}", entry.path, session.members()[i].spec.name,
                                 escape_control(entry.link)));
      return true;
    });
  }
  if (left.empty()) return;
  context.console.note(fmt::format(
      "{} not fetched: {}; a link is fetched if it leads to a fetched file by a relative path; "
      "save copies instead of links, or copy the files from the node: paddlectl get",
      counted(left.size(), "link"), first_names(left)));
}

// Makes the links and empty folders of a member.
Status make_without_content(const Context& context, const Member& member,
                            const OutputFolder& folder,
                            const std::vector<remote::FileEntry>& entries) {
  const std::string node = "node " + member.spec.name;
  for (const remote::FileEntry& entry : entries) {
    const bool is_link = entry.kind == remote::FileEntry::Kind::kLink;
    PADDLE_TRY_STATUS(
        make_above(folder, is_link ? entry.path : entry.path + "/x", kStillThere).with(node));
    if (!is_link) continue;
    TreeEntry link{.path = entry.path, .kind = TreeEntry::Kind::kLink, .link = entry.link};
    link.mtime_ns = context.unix_seconds() * 1'000'000'000;
    PADDLE_TRY_STATUS(TreeWriter(folder.fd->get()).make_link(link).with(node));
  }
  return {};
}

// If a node does not answer, the names of its files are not known, so other nodes replace nothing.
void keep_what_is_here(const fs::path& folder, ResultFiles& found) {
  if (found.all_answered) return;
  for (auto& entries : found.without_content) {
    std::erase_if(entries, [&](const remote::FileEntry& entry) {
      std::error_code ignored;
      return fs::exists(fs::symlink_status(folder / entry.path, ignored));
    });
  }
  for (auto& files : found.of_member) {
    std::erase_if(files, [&](const remote::FileEntry& file) {
      const std::string snapshot = snapshot_of(file.path);
      std::error_code ignored;  // a name from a node may be too long for a file here
      return fs::exists(folder / (snapshot.empty() ? file.path : snapshot), ignored);
    });
  }
}

void note_giver(Context& context, ClusterSession& session,
                const std::vector<ProcessOnNode>& processes, const ResultFiles& found) {
  if (!found.giver || processes.empty()) return;
  const auto leader = std::ranges::find(processes, "trainer-0",
                                        [](const ProcessOnNode& p) { return p.status.name; });
  if (leader != processes.end() && leader->member == *found.giver) return;
  const bool any = std::ranges::any_of(
      found.of_member[*found.giver],
      [](const remote::FileEntry& file) { return !snapshot_of(file.path).empty(); });
  if (!any) return;
  context.console.note(fmt::format(
      "snapshots are taken from node {}: {}", session.members()[*found.giver].spec.name,
      leader == processes.end()
          ? "no node has trainer 0"
          : fmt::format("node {} of trainer 0 has no complete snapshot as new as this one",
                        session.members()[leader->member].spec.name)));
}

// The sizes of a member's files that are here now, with its copies of snapshots that another member
// gave.
std::map<std::string, std::uint64_t> fetched_sizes(const ResultFiles& found, std::size_t member) {
  std::map<std::string, std::uint64_t> sizes;
  for (const remote::FileEntry& file : found.of_member[member]) sizes[file.path] = file.size;
  if (!found.giver) return sizes;
  std::set<std::string> given;
  for (const remote::FileEntry& file : found.of_member[*found.giver])
    given.insert(snapshot_of(file.path));
  for (const remote::FileEntry& file : found.copies[member]) {
    if (given.contains(snapshot_of(file.path))) sizes[file.path] = file.size;
  }
  return sizes;
}

// Records on each node which of its files are here now. Skips running jobs, whose files may change.
void record_fetched(Context& context, ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, const ResultFiles& found,
                    const fs::path& folder) {
  if (std::ranges::any_of(processes, is_running, &ProcessOnNode::status)) return;
  const Status recorded = session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    const auto sizes = fetched_sizes(found, index);
    if (sizes.empty()) return {};
    const std::int64_t started = latest_start(processes, index, job);
    FetchRecord record = read_fetch_record(*member.client, job, started);
    for (const auto& [path, size] : sizes) record.sizes[path] = size;
    return write_fetch_record(*member.client, job, record, folder.string());
  });
  if (recorded || session.unreachable() > 0) return;
  std::istringstream lines(recorded.error().message);  // one for each node
  for (std::string line; std::getline(lines, line);)
    context.console.note("not recorded as fetched: " + line);
}

// Removes the unfinished files of a fetch that was killed. REQUIRES: this program holds the lock.
void remove_parts(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> parts;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (remote::is_part_of_fetch(at->path().filename().string())) parts.push_back(at->path());
  }
  for (const fs::path& part : parts) fs::remove(part, error);
}

}  // namespace

Result<FetchStats> fetch_results(Context& context, ClusterSession& session, const std::string& job,
                                 const std::string& output, const std::optional<PassChoice>& passes,
                                 std::optional<std::size_t> giver) {
  PADDLE_TRY(const fs::path folder, make_output_folder(context, output, job, kStillThere));
  PADDLE_TRY(const Claimed claimed,
             claim_job(context, session, job, {.command = JobCommand::kFetch}));
  if (claimed.has_waited) PADDLE_TRY_STATUS(choose_job(session, job));
  PADDLE_TRY(const OutputLock lock, OutputLock::take(context, folder));
  if (lock.is_held()) remove_parts(folder);
  PADDLE_TRY(const OutputFolder here, open_output(folder));
  const auto processes = session.processes(job);
  // If a node fails, the files of the others are fetched all the same; the error comes at the end.
  ResultFiles found;
  Status listed = passes ? list_results(session, job, processes, found, giver) : Status();
  FetchStats stats;
  if (passes) {
    LeftSnapshots left;
    PADDLE_TRY_STATUS(keep_passes(context, session, job, processes, *passes, found, left));
    add_left(left, folder, stats);
    note_left_files(context, found);
    leave_out_links(context, session, found);
    note_giver(context, session, processes, found);
    keep_what_is_here(folder, found);
  }
  found.of_member.resize(session.members().size());
  found.without_content.resize(session.members().size());
  std::vector<std::vector<remote::FetchItem>> wanted(session.members().size());
  std::vector<std::string> kept(session.members().size()), damaged(session.members().size());
  std::atomic<std::size_t> files = 0;
  Status prepared = session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    const std::string logs = node_folder(job, member.node);
    PADDLE_TRY(const auto entries, member.client->list_sizes(logs));
    PADDLE_TRY_STATUS(add_wanted(member, logs, here, fmt::format("node_{}/", member.node), entries,
                                 wanted[index]));
    PADDLE_TRY_STATUS(
        add_wanted(member, output_folder(job), here, "", found.of_member[index], wanted[index]));
    files += wanted[index].size();
    Listed on_node;
    const auto snapshots = snapshots_wanted(output_folder(job), wanted[index]);
    PADDLE_TRY_STATUS(settle_wanted(member, wanted[index], on_node));
    keep_whole(member, output_folder(job), folder, on_node, wanted[index], kept[index]);
    if (kept[index].empty())
      note_damaged(member, output_folder(job), snapshots, on_node, damaged[index]);
    return {};
  });
  for (const std::string& text : kept) {
    if (!text.empty()) context.console.note(text);
  }
  for (auto& of_node : wanted) {
    std::ranges::stable_sort(of_node, {}, [](const remote::FetchItem& file) {
      return file.remote_path.ends_with("MANIFEST");
    });
    stats.files_fetched += of_node.size();
  }
  stats.files = files;
  PADDLE_TRY_STATUS(check_space(context, session, folder, wanted));
  const Status fetched = session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    PADDLE_TRY_STATUS(member.client->fetch(wanted[index]));
    return make_without_content(context, member, here, found.without_content[index]);
  });
  for (const Status& status : {listed, prepared, fetched}) {
    if (!status) return status.error();
  }
  if (std::ranges::any_of(damaged, [](const std::string& text) { return !text.empty(); }))
    return damage_error(damaged);
  if (passes) record_fetched(context, session, job, processes, found, folder);
  return stats;
}

void note_left_snapshots(Context& context, const std::string& job, const std::string& output,
                         const FetchStats& stats) {
  if (stats.missing.empty()) return;
  const std::string folder = shown_path(context, output);
  context.console.note(
      fmt::format("{} ({}) {} on the nodes; to fetch: paddlectl fetch --pass all --job {}{}",
                  counted(stats.missing.size(), "snapshot"), human_bytes(stats.missing_bytes),
                  stats.missing.size() == 1 ? "stays" : "stay", job,
                  folder == "output" ? "" : " --output " + folder));
}

}  // namespace paddle::cli
