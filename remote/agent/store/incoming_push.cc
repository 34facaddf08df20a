#include "remote/agent/store/incoming_push.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "proto/agent.pb.h"

namespace paddle::agent {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kReservePart = 5;
constexpr std::uint64_t kReserveBytesMax = 1'000'000'000;

constexpr std::size_t kPushRecordBytesMax = 256U << 20U;  // enough for a million paths
constexpr mode_t kWriteAccess = 0222;

// Pushed files are read-only, because jobs share them; a file that replaced one usually is not.
bool is_pushed(int folder, const std::string& name) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  return S_ISLNK(info.st_mode) || (S_ISREG(info.st_mode) && (info.st_mode & kWriteAccess) == 0);
}

// Removes the folder and its parents while they are empty, up to `last`.
void remove_pushed(const Root& root, const std::string& last, std::string path) {
  for (int flags = 0; path.size() > last.size(); flags = AT_REMOVEDIR) {
    const auto slash = path.rfind('/');
    const auto folder = open_folder(root, path.substr(0, slash));
    const std::string name = path.substr(slash + 1);
    if (!folder || (flags == 0 && !is_pushed(folder->get(), name))) return;
    if (::unlinkat(folder->get(), name.c_str(), flags) != 0) return;
    path.resize(slash);
  }
}

// Call before the files of a push are placed. Removes files that earlier pushes placed in `folder`
// (below root) and that are not among `paths`, and folders left empty; a file that was replaced
// since is kept. True when any was removed. The record is <folder>.pushed, a serialised Manifest.
Result<bool> keep_only(const Root& root, const std::string& folder,
                       const std::set<std::string>& paths) {
  PADDLE_TRY(const SafePath record, SafePath::parse(folder + ".pushed"));
  const std::string prefix = folder + "/";
  wire::agent::Manifest before;
  // Without a valid record it is not known which files earlier pushes placed.
  if (const auto text = read_below(root, record, kPushRecordBytesMax))
    (void)before.ParseFromString(*text);
  bool removed = false;
  for (const auto& file : before.files()) {
    if (!file.path().starts_with(prefix) || paths.contains(file.path())) continue;
    remove_pushed(root, folder, file.path());
    removed = true;
  }
  wire::agent::Manifest now;
  for (auto at = paths.lower_bound(prefix); at != paths.end() && at->starts_with(prefix); ++at)
    now.add_files()->set_path(*at);
  PADDLE_TRY_STATUS(replace_below(root, record, as_bytes(now.SerializeAsString())));
  return removed;
}

constexpr std::size_t kLinkBytesMax = 4096;
constexpr std::string_view kOwnFolder = "store";  // a push may not place files there

Error refuse(const std::string& path, const std::string& why) {
  return Error{Errc::kData, "'" + escape_control(path.substr(0, 200)) + "': " + why, ""};
}

std::pair<std::string, std::string> split(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// Removes files that an earlier push placed where this push needs a folder.
void clear_files_above(const Root& root, const std::string& folder) {
  for (std::size_t end = folder.find('/');; end = folder.find('/', end + 1)) {
    const auto prefix = SafePath::parse(folder.substr(0, end));
    if (!prefix) return;
    const auto entry = open_parent(root, *prefix);
    struct stat info {};
    if (!entry ||
        ::fstatat(entry->folder.get(), entry->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return;
    if (S_ISREG(info.st_mode)) ::unlinkat(entry->folder.get(), entry->name.c_str(), 0);
    if (end == std::string::npos) return;
  }
}

}  // namespace

std::uint64_t free_bytes(const Root& root) {
  struct statvfs disk {};
  if (::fstatvfs(root.fd.get(), &disk) != 0 || disk.f_blocks == 0) return UINT64_MAX;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

Status PushRoom::reserve(std::uint64_t file_bytes) {
  needed_ += (file_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  const std::uint64_t reserve = std::min(needed_ / kReservePart, kReserveBytesMax);
  if (needed_ + reserve <= free_) return {};
  return Error{Errc::kResource,
               "there is not enough disk space for this push in " + folder_ +
                   ": its files need at least " + human_bytes(needed_) +
                   " there, the job at least " + human_bytes(reserve) + " more, and " +
                   human_bytes(free_) + " are free; nothing was sent",
               "make room there, push less (.paddleignore), or set another `workdir` in the "
               "cluster file"};
}

bool link_stays_inside(const std::string& path, const std::string& target) {
  if (target.empty() || target.size() > kLinkBytesMax || target.front() == '/' ||
      target.find('\0') != std::string::npos) {
    return false;
  }
  auto depth = std::count(path.begin(), path.end(), '/');
  for (std::size_t begin = 0; begin <= target.size();) {
    const std::size_t end = std::min(target.find('/', begin), target.size());
    const std::string_view part = std::string_view(target).substr(begin, end - begin);
    if (part == "..")
      --depth;
    else if (!part.empty() && part != ".")
      ++depth;
    if (depth < 0) return false;
    begin = end + 1;
  }
  return true;
}

void IncomingPush::reset() {
  files_.clear();
  map_.reset();
  entries_.clear();
  paths_.clear();
  missing_.clear();
  list_.clear();
  late_ = {};
  store_.reset();
}

Result<wire::agent::ManifestReply> IncomingPush::manifest(bool first,
                                                          const wire::agent::Manifest& manifest) {
  if (first) {
    reset();
    PADDLE_TRY(store_, Store::open(root_));
    room_ = PushRoom(root_.path, free_bytes(root_));
  }
  if (!store_) return Error{Errc::kData, "the push does not begin with a manifest", ""};
  wire::agent::ManifestReply reply;
  for (int i = 0; i < manifest.files_size(); ++i) {
    bool missing = false;
    PADDLE_TRY_STATUS(add_entry(manifest.files(i), missing));
    if (missing) reply.add_missing(static_cast<std::uint32_t>(i));
  }
  PADDLE_TRY_STATUS(store_->save());
  return reply;
}

Status IncomingPush::add_entry(const wire::agent::PushEntry& file, bool& missing) {
  PADDLE_TRY(const SafePath path, SafePath::parse(file.path()));
  if (entries_.size() >= kPushEntriesMax) return refuse(file.path(), "the push has too many files");
  if (path.str() == kOwnFolder || path.str().starts_with(std::string(kOwnFolder) + "/"))
    return refuse(file.path(), "this folder belongs to the agent");
  if (!paths_.insert(path.str()).second)
    return refuse(file.path(), "it is listed twice in one push");
  const auto below = paths_.lower_bound(path.str() + "/");
  bool both = below != paths_.end() && below->starts_with(path.str() + "/");
  for (auto slash = path.str().find('/'); slash != std::string::npos;
       slash = path.str().find('/', slash + 1)) {
    both |= paths_.contains(path.str().substr(0, slash));
  }
  if (both) return refuse(file.path(), "it is both a file and a folder in one push");
  Entry entry;
  entry.path = path.str();
  entry.link = file.link();
  entry.size = file.size();
  if (!entry.link.empty()) {
    if (!link_stays_inside(entry.path, entry.link))
      return refuse(file.path(), "the link leads outside, to '" + escape_control(entry.link) + "'");
  } else {
    if (file.size() > kPushFileBytesMax || file.id().size() != entry.key.id.size())
      return refuse(file.path(), "the request has an invalid size or hash");
    std::memcpy(entry.key.id.data(), file.id().data(), entry.key.id.size());
    entry.key.mode = (file.mode() & 0555U) | 0400U;
    missing = !store_->holds(entry.key, entry.size) && missing_.insert(entry.key.name()).second;
    // Chunks of a larger file may be here already; chunks() reserves room for the others.
    if (missing && !is_chunked(entry.size)) PADDLE_TRY_STATUS(room_.reserve(entry.size));
  }
  entries_.push_back(std::move(entry));
  return {};
}

Result<Bytes> IncomingPush::chunks(const wire::agent::ChunksRequest& request, ByteSpan part) {
  const std::uint32_t index = request.file();
  if (index >= entries_.size() || !is_chunked(entries_[index].size) ||
      list_.size() + part.size() > kPushFileBytesMax / kChunkBytesMin * kChunkEntryBytes) {
    return Error{Errc::kData, "the chunk list is too long, or its file is not chunked", ""};
  }
  append_bytes(list_, part);
  if (!request.last()) return Bytes{};
  const Entry& entry = entries_[index];
  if (!map_) map_ = std::make_unique<ChunkMap>(*store_);
  PADDLE_TRY(const SafePath path, SafePath::parse(entry.path));
  PADDLE_TRY(files_[index], IncomingFile::begin(*store_, entry.key, path, entry.size,
                                                std::exchange(list_, {}), *map_)
                                .with(entry.path));
  PADDLE_TRY_STATUS(room_.reserve(files_[index]->bytes_to_write()));
  listed_ = index;
  return files_[index]->lacking();
}

void IncomingPush::copy_known() {
  const auto file = files_.find(listed_);
  if (file == files_.end()) return;
  if (Status copied = file->second->copy_known(); !copied && late_) late_ = std::move(copied);
}

Status IncomingPush::put(const wire::agent::Put& put, ByteSpan tail) {
  PADDLE_TRY_STATUS(late_);
  constexpr std::size_t kRawBytesMax = 4U << 20U;
  std::uint64_t sum = 0;
  for (const auto& blob : put.blobs()) sum += blob.size();
  Bytes raw;
  if (put.raw_bytes() > kRawBytesMax)
    return Error{Errc::kData, "the request has too many bytes", ""};
  if (put.raw_bytes() > 0) {
    PADDLE_TRY(raw, decompress(tail, put.raw_bytes()));
    tail = raw;
  }
  if (sum != tail.size())
    return Error{Errc::kData, "the sizes of the blobs do not match the bytes received", ""};
  std::size_t at = 0;
  for (const auto& blob : put.blobs()) {
    PADDLE_TRY_STATUS(put_blob(blob, tail.subspan(at, blob.size())));
    at += blob.size();
  }
  return store_ ? store_->save() : Status{};
}

Result<Piece> IncomingPush::piece_of(const wire::agent::Put::Blob& blob) const {
  if (blob.file() >= entries_.size())
    return Error{Errc::kData, "a blob belongs to no listed file", ""};
  const Entry& entry = entries_[blob.file()];
  if (!is_chunked(entry.size)) return Piece{entry.key, 0, static_cast<std::uint32_t>(entry.size)};
  const auto file = files_.find(blob.file());
  const auto place = file == files_.end() ? std::nullopt : file->second->range_of(blob.chunk());
  if (!place) return Error{Errc::kData, "a chunk was sent before its chunk list", ""};
  return Piece{entry.key, place->first, place->second};
}

Result<wire::agent::PullReply> IncomingPush::pull(const wire::agent::PullRequest& request,
                                                  ByteSpan caller_key) {
  PADDLE_TRY_STATUS(late_);
  std::vector<Piece> pieces;
  for (const auto& blob : request.blobs()) {
    PADDLE_TRY(const Piece piece, piece_of(blob));
    pieces.push_back(piece);
  }
  auto pulled = pull_pieces(request, caller_key, pieces, [&](std::size_t i, ByteSpan bytes) {
    return put_blob(request.blobs(static_cast<int>(i)), bytes);
  });
  if (pulled && store_) PADDLE_TRY_STATUS(store_->save());
  return pulled;
}

Status IncomingPush::put_blob(const wire::agent::Put::Blob& blob, ByteSpan bytes) {
  if (blob.file() >= entries_.size())
    return Error{Errc::kData, "a blob belongs to no listed file", ""};
  const Entry& entry = entries_[blob.file()];
  if (!is_chunked(entry.size)) return store_->add(entry.key, bytes).with(entry.path);
  const auto file = files_.find(blob.file());
  if (file != files_.end()) return file->second->add(blob.chunk(), bytes).with(entry.path);
  return Error{Errc::kData, entry.path + ": a chunk was sent before its chunk list", ""};
}

Status IncomingPush::open_folder(const std::string& path, Folder& folder) {
  if (folder.fd && folder.path == path) return {};
  PADDLE_TRY(const SafePath safe, SafePath::parse(path.empty() ? "x" : path + "/x"));
  auto made = make_parent(root_, safe);
  if (!made) {
    clear_files_above(root_, path);
    made = make_parent(root_, safe);
  }
  if (!made) return std::move(made).error();
  folder = {path, std::move(made->folder)};
  return {};
}

Result<bool> IncomingPush::place_link(const Entry& entry, const Folder& folder,
                                      const std::string& name) {
  char there[kLinkBytesMax + 1];
  const ssize_t size = ::readlinkat(folder.fd.get(), name.c_str(), there, sizeof there);
  if (size >= 0 && std::string_view(there, static_cast<std::size_t>(size)) == entry.link)
    return false;
  const std::string temporary = ".incoming-" + std::to_string(::getpid());
  ::unlinkat(folder.fd.get(), temporary.c_str(), 0);
  if (::symlinkat(entry.link.c_str(), folder.fd.get(), temporary.c_str()) == 0 &&
      ::renameat(folder.fd.get(), temporary.c_str(), folder.fd.get(), name.c_str()) == 0) {
    return true;
  }
  Error error = system_error(Errc::kResource, "place " + entry.path);
  ::unlinkat(folder.fd.get(), temporary.c_str(), 0);
  return error;
}

Status IncomingPush::place(const std::string& keep_only) {
  PADDLE_TRY_STATUS(late_);
  if (!store_) return Error{Errc::kData, "nothing was pushed", ""};
  std::set<std::string> wanted, waiting;
  for (const auto& [index, file] : files_) {
    if (file->waits()) waiting.insert(entries_[index].key.name());
  }
  for (const Entry& entry : entries_) {
    if (!entry.link.empty()) continue;
    const std::string& name = *wanted.insert(entry.key.name()).first;
    if (missing_.contains(name) && !waiting.contains(name) &&
        !store_->holds(entry.key, entry.size)) {
      return refuse(entry.path, "it was not received");
    }
  }
  for (const auto& [index, file] : files_) {
    if (file->waits()) PADDLE_TRY_STATUS(file->assemble(wanted).with(entries_[index].path));
  }
  Folder folder;
  bool changed = false;
  if (!keep_only.empty()) {
    PADDLE_TRY(changed, agent::keep_only(root_, keep_only, paths_));
  }
  for (const Entry& entry : entries_) {
    const auto [parent, name] = split(entry.path);
    PADDLE_TRY_STATUS(open_folder(parent, folder));
    auto placed = entry.link.empty() ? store_->place(entry.key, folder.fd.get(), name)
                                     : place_link(entry, folder, name);
    PADDLE_TRY(const bool is_new, std::move(placed).with(entry.path));
    changed |= is_new;
  }
  PADDLE_TRY_STATUS(store_->save());
  if (changed) store_->sweep();
  reset();
  return {};
}

}  // namespace paddle::agent
