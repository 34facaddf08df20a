#include "remote/agent/root/node_copy.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "remote/agent/root/files.h"

namespace paddle::agent {
namespace {

constexpr std::string_view kLock = ".lock";

namespace fs = std::filesystem;

Error failed(const std::string& what, const fs::path& path, const std::error_code& error) {
  return Error{Errc::kFailed, what + " " + path.string() + ": " + error.message(), ""};
}

Result<fs::path> outside_path(const std::string& text) {
  if (text.empty() || text.find('\0') != std::string::npos) {
    return Error{Errc::kUsage, "no path on the node", ""};
  }
  if (text[0] == '/') return fs::path(text);
  const char* const home = ::getenv("HOME");
  if (home == nullptr) return Error{Errc::kUsage, "no HOME on the node", "give an absolute path"};
  if (text == "~") return fs::path(home);
  return fs::path(home) / (text.starts_with("~/") ? text.substr(2) : text);
}

// Writes a temporary file beside the target, so that nobody sees half of it.
Status put_file(const fs::path& from, const fs::path& to, wire::agent::CopyReply& reply) {
  const fs::path draft = to.parent_path() / ("." + to.filename().string() + ".paddlectl-" +
                                             std::to_string(::getpid()));
  std::error_code error;
  fs::remove(draft, error);
  if (fs::is_symlink(fs::symlink_status(from, error))) {
    fs::copy_symlink(from, draft, error);
  } else {
    fs::copy_file(from, draft, error);
    // Pushed files are read-only, because jobs share them.
    if (!error) fs::permissions(draft, fs::perms::owner_write, fs::perm_options::add, error);
    if (!error) reply.set_bytes(reply.bytes() + fs::file_size(draft, error));
  }
  if (!error) fs::rename(draft, to, error);
  if (!error) {
    reply.set_files(reply.files() + 1);
    return {};
  }
  std::error_code ignored;
  fs::remove(draft, ignored);
  return failed("write", to, error);
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return failed("make the folder", folder, error);
  return {};
}

Status take_out(const fs::path& inside, const fs::path& outside, wire::agent::CopyReply& reply) {
  std::error_code error;
  std::size_t entries = 0;
  fs::path only;
  for (const auto& entry : fs::directory_iterator(inside, error)) {
    only = entry.path();
    ++entries;
  }
  if (error) return failed("read", inside, error);
  const bool one_file = entries == 1 && !fs::is_directory(fs::symlink_status(only, error));
  if (one_file && outside.has_filename() && !fs::is_directory(outside, error)) {
    PADDLE_TRY_STATUS(make_folder(outside.parent_path()));
    return put_file(only, outside, reply);
  }
  PADDLE_TRY_STATUS(make_folder(outside));
  fs::recursive_directory_iterator at(inside, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::path to = outside / at->path().lexically_relative(inside);
    PADDLE_TRY_STATUS(fs::is_directory(at->symlink_status(error))
                          ? make_folder(to)
                          : put_file(at->path(), to, reply));
  }
  if (error) return failed("read", inside, error);
  return {};
}

// True for the errors of a file that somebody has removed, here or (ESTALE) on another machine.
bool is_gone(const std::error_code& error) {
  return error.value() == ENOENT || error.value() == ENOTDIR || error.value() == ESTALE;
}

Status take_file(const fs::path& from, const fs::path& to, wire::agent::CopyReply& reply) {
  std::error_code error, ignored;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  if (is_gone(error) && fs::exists(to.parent_path(), ignored)) {
    reply.set_gone(reply.gone() + 1);
    return {};
  }
  if (error) return failed("read", from, error);
  reply.set_files(reply.files() + 1);
  reply.set_bytes(reply.bytes() + fs::file_size(to, error));
  return {};
}

// Copies regular files and the folders that hold some; links are not followed. The source, $HOME
// for one, may contain agents' own copy folders, which are skipped.
Status take_folder(const fs::path& from, const fs::path& to, wire::agent::CopyReply& reply) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::directory_iterator at(from, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) entries.push_back(*at);
  if (error && !is_gone(error)) return failed("read", from, error);
  if (error) reply.set_gone(reply.gone() + 1);
  for (const fs::directory_entry& entry : entries) {
    const fs::path name = entry.path().filename();
    const fs::file_status status = entry.symlink_status(error);
    if (is_gone(error)) {
      reply.set_gone(reply.gone() + 1);
    } else if (error) {
      return failed("read", entry.path(), error);
    } else if (fs::is_directory(status)) {
      if (name == CopyFolders::kFolder) continue;
      PADDLE_TRY_STATUS(take_folder(entry.path(), to / name, reply));
    } else if (fs::is_regular_file(status)) {
      PADDLE_TRY_STATUS(make_folder(to));
      PADDLE_TRY_STATUS(take_file(entry.path(), to / name, reply));
    }
  }
  return {};
}

Status take_in(const fs::path& outside, const fs::path& inside, wire::agent::CopyReply& reply) {
  std::error_code error;
  // A link stands for its target, as in scp, but keeps its own name.
  const fs::path from = fs::canonical(outside, error);
  if (error) return failed("read", outside, error);
  if (std::ranges::find(from, fs::path(CopyFolders::kFolder)) != from.end()) {
    return Error{Errc::kUsage, outside.string() + " is where paddlectl keeps copies meanwhile", ""};
  }
  fs::path name = outside.lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  if (name.filename() == ".." || !name.has_filename()) name = from;
  const fs::path to = inside / name.filename();
  PADDLE_TRY_STATUS(make_folder(inside));
  if (fs::is_regular_file(from, error)) {
    PADDLE_TRY_STATUS(take_file(from, to, reply));
  } else if (fs::is_directory(from, error)) {
    PADDLE_TRY_STATUS(take_folder(from, to, reply));
  } else {
    return Error{Errc::kUsage, outside.string() + " is neither a file nor a folder", ""};
  }
  // Files below it may vanish during the copy, but not the source itself.
  if (fs::exists(from, error)) return {};
  return failed("read", outside, std::make_error_code(std::errc::no_such_file_or_directory));
}

}  // namespace

bool CopyFolders::open_lock() {
  const auto folder = open_folder(root_, kFolder);
  if (!folder) return false;
  lock_ = UniqueFd(::openat(folder->get(), std::string(kLock).c_str(),
                            O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  return bool(lock_);
}

void CopyFolders::clear() {
  if (in_use_ || !open_lock() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return;
  // Files that cannot be removed now are left to the next session or teardown.
  if (const auto names = names_in(root_, std::string(kFolder))) {
    for (const std::string& name : *names) {
      if (name != kLock) (void)remove_path(root_, std::string(kFolder) + "/" + name);
    }
  }
  ::flock(lock_.get(), LOCK_UN);
}

Status CopyFolders::use() {
  if (in_use_) return {};
  PADDLE_TRY(const SafePath path, SafePath::parse(kFolder));
  PADDLE_TRY_STATUS(path.make_directories(root_.fd.get()));
  clear();
  // The cleaner holds the exclusive lock only briefly.
  if (!lock_ || ::flock(lock_.get(), LOCK_SH) != 0)
    return system_error(Errc::kResource, "lock the folder copy");
  in_use_ = true;
  return {};
}

Result<wire::agent::CopyReply> copy_files(const Root& root,
                                          const wire::agent::CopyRequest& request) {
  PADDLE_TRY(const SafePath checked, SafePath::parse(request.inside()));
  PADDLE_TRY(const fs::path outside, outside_path(request.outside()));
  const fs::path inside = fs::path(root.path) / request.inside();
  wire::agent::CopyReply reply;
  PADDLE_TRY_STATUS(request.bring_in() ? take_in(outside, inside, reply)
                                       : take_out(inside, outside, reply));
  return reply;
}

}  // namespace paddle::agent
