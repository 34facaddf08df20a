#include "cli/job/snapshots/whole.h"

#include <filesystem>
#include <sstream>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kReadBytesMax = 64U << 20U;

// The name stands last, and may have spaces.
std::optional<NamedFile> named_file(const std::string& line) {
  std::istringstream words(line);
  std::string kind, size, sha256;
  if (!(words >> kind >> size >> sha256) || !size.starts_with("size=") ||
      !sha256.starts_with("sha256=")) {
    return std::nullopt;
  }
  const std::size_t name = line.find(" name=");
  if (name == std::string::npos) return std::nullopt;
  return NamedFile{line.substr(name + 6), std::strtoull(size.c_str() + 5, nullptr, 10),
                   sha256.substr(7)};
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

std::string manifest_on_node(remote::AgentClient& client, const std::string& folder) {
  constexpr std::uint32_t kPartBytes = 1U << 20U;
  std::string text;
  for (bool more = true; more;) {
    const auto part = client.read_log(folder + "/MANIFEST", text.size(), kPartBytes);
    if (!part || part->size > kReadBytesMax) return "";
    text += part->data;
    more = !part->data.empty() && text.size() < part->size;
  }
  return text;
}

std::string damaged_file_here(const std::string& folder) {
  const auto manifest = read_file(folder + "/MANIFEST", kReadBytesMax);
  return damaged_file(manifest ? *manifest : "", [&](const NamedFile& file) {
    const std::string path = folder + "/" + file.name;
    std::error_code error;
    if (std::filesystem::file_size(path, error) != file.size || error) return false;
    const auto digest = sha256_of_file(path);
    return digest && to_hex(*digest) == file.sha256;
  });
}

}  // namespace paddle::cli
