#include "cli/job/whole_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kReadBytesMax = 64U << 20U;
constexpr const char* kManifest = "MANIFEST";

// Parses a line of a MANIFEST. The name comes last and may contain spaces. A node wrote the line,
// so the name must be a safe path below the snapshot's folder.
std::optional<NamedFile> named_file(const std::string& line) {
  std::istringstream words(line);
  std::string kind, size, sha256;
  if (!(words >> kind >> size >> sha256) || !size.starts_with("size=") ||
      !sha256.starts_with("sha256=")) {
    return std::nullopt;
  }
  const std::string start = fmt::format("{} {} {} name=", kind, size, sha256);
  if (!line.starts_with(start)) return std::nullopt;
  NamedFile file{line.substr(start.size()), 0, sha256.substr(7)};
  const char* const end = size.data() + size.size();
  const auto [at, error] = std::from_chars(size.data() + 5, end, file.size);
  if (error != std::errc() || at != end || !SafePath::parse(file.name)) return std::nullopt;
  return file;
}

}  // namespace

std::optional<std::vector<NamedFile>> files_of_manifest(const std::string& manifest) {
  const std::size_t last = manifest.rfind("\nsha256 ");
  if (last == std::string::npos) return std::nullopt;
  const std::string covered = manifest.substr(0, last + 1);
  Sha256 sum;
  sum.update(as_bytes(covered));
  if (manifest.substr(last + 1) != "sha256 " + to_hex(sum.finish()) + "\n") return std::nullopt;
  std::vector<NamedFile> files;
  std::istringstream lines(covered);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("file ") && !line.starts_with("model ")) continue;
    auto file = named_file(line);
    if (!file) return std::nullopt;
    files.push_back(*std::move(file));
  }
  return files;
}

std::string damaged_file(const std::string& manifest,
                         const std::function<bool(const NamedFile&)>& is_right) {
  const auto files = files_of_manifest(manifest);
  if (!files) return "MANIFEST";
  for (const NamedFile& file : *files) {
    if (!is_right(file)) return file.name;
  }
  return "";
}

bool is_first_format(const std::string& manifest) {
  constexpr std::string_view kFirst = "snapshot format=1";
  return manifest.starts_with(kFirst) &&
         manifest.find_first_of(" \n", kFirst.size() - 1) == kFirst.size();
}

std::string manifest_on_node(remote::AgentClient& client, const std::string& folder) {
  return client.read_whole_file(folder + "/MANIFEST", kReadBytesMax).value_or("");
}

std::string damaged_file_here(const std::string& folder) {
  const UniqueFd here(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto content_of = [&](const std::string& name) -> Result<UniqueFd> {
    PADDLE_TRY(const SafePath path, SafePath::parse(name));
    return path.open_read(here.get());
  };
  const auto manifest = content_of(kManifest);
  std::string text;
  if (manifest) {
    // Reads the open file, even if another file gets its name meanwhile.
    if (auto read = read_file(fmt::format("/proc/self/fd/{}", manifest->get()), kReadBytesMax))
      text = *std::move(read);
  }
  return damaged_file(text, [&](const NamedFile& file) {
    const auto content = content_of(file.name);
    struct stat info {};
    if (!content || ::fstat(content->get(), &info) != 0 ||
        static_cast<std::uint64_t>(info.st_size) != file.size) {
      return false;
    }
    const auto digest = sha256_of_fd(content->get(), file.size);
    return digest && to_hex(*digest) == file.sha256;
  });
}

}  // namespace paddle::cli
