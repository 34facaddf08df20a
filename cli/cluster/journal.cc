#include "cli/cluster/journal.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "cli/console/json.h"

namespace paddle::cli {
namespace {

constexpr const char* kOfNoJob = "nodes.jsonl";
constexpr std::size_t kJobBytesMax = 240;  // with ".jsonl" it fits in a file name

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%FT%TZ", &parts)};
}

Status make_private_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return system_error(Errc::kResource, "make " + folder);
}

}  // namespace

Journal::Journal(std::string folder, std::function<void(const Error&)> complain)
    : folder_(std::move(folder)), complain_(std::move(complain)), who_(user_at_machine()) {}

std::string Journal::path_of(const std::string& job) const {
  // Nodes report the names of jobs, and may report any text.
  const bool is_file_name = !job.empty() && job.size() <= kJobBytesMax && !job.starts_with('.') &&
                            job.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (!is_file_name) return folder_ + "/" + kOfNoJob;
  return fmt::format("{}/jobs/{}.jsonl", folder_, job);
}

Status Journal::append(const std::string& path, const std::string& line) const {
  PADDLE_TRY_STATUS(make_private_folder(folder_));
  PADDLE_TRY_STATUS(make_private_folder(folder_ + "/jobs"));
  // Without O_NONBLOCK, open() would block on a pipe that has no reader.
  const UniqueFd file(::open(
      path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) {
    return system_error(Errc::kResource, "open " + path);
  }
  if (!S_ISREG(info.st_mode)) return Error{Errc::kResource, path + " is not a regular file", ""};
  for (std::string_view left = line; !left.empty();) {
    const ssize_t put = ::write(file.get(), left.data(), left.size());
    if (put < 0) return system_error(Errc::kResource, "write " + path);
    left.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

void Journal::add(const remote::NodeSpec& node, const remote::NodeAction& action) const {
  if (folder_.empty()) return;
  // The JSON writer escapes control characters in the names of nodes and programs.
  const std::string line = Json::object({{"time", time_now()},
                                         {"who", who_},
                                         {"pid", ::getpid()},
                                         {"node", node.name},
                                         {"folder", node.root},
                                         {"action", action.text},
                                         {"exit", action.exit_code}})
                               .text() +
                           "\n";
  const Status written = append(path_of(action.job), line);
  if (!written && !complained_.exchange(true)) complain_(written.error());
}

std::string user_at_machine() {
  char machine[256] = "";
  ::gethostname(machine, sizeof machine - 1);
  const passwd* const user = ::getpwuid(::geteuid());
  return fmt::format("{}@{}", user ? user->pw_name : std::to_string(::geteuid()), machine);
}

std::string journal_folder() {
  const char* const state = ::getenv("XDG_STATE_HOME");
  const char* const home = ::getenv("HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/paddlectl";
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/state/paddlectl" : "";
}

}  // namespace paddle::cli
