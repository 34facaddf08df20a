#include "cli/job/whole_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/safe_path.h"

namespace paddle::cli {
namespace {

constexpr const char* kManifest = "MANIFEST";

// A regular file below the folder, never one to which a link leads.
class SnapshotFolder {
 public:
  explicit SnapshotFolder(const std::string& path)
      : folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

  Result<UniqueFd> open(const std::string& name) const {
    PADDLE_TRY(const SafePath path, SafePath::parse(name));
    return path.open_read(folder_.get());
  }

  std::string manifest() const {
    const auto opened = open(kManifest);
    if (!opened) return "";
    // Reads the open file, even if another file gets its name meanwhile.
    auto text =
        read_file(fmt::format("/proc/self/fd/{}", opened->get()), snapshot::kManifestBytesMax);
    return text ? *std::move(text) : "";
  }

 private:
  UniqueFd folder_;
};

}  // namespace

std::string manifest_on_node(remote::AgentClient& client, const std::string& folder) {
  return client.read_whole_file(folder + "/" + kManifest, snapshot::kManifestBytesMax).value_or("");
}

std::string manifest_here(const std::string& folder) {
  return SnapshotFolder(folder).manifest();
}

std::string damage_of(const Result<snapshot::Manifest>& manifest,
                      const std::function<bool(const snapshot::FileEntry&)>& is_right) {
  if (!manifest) {
    const Error& error = manifest.error();
    return error.code == Errc::kVersion ? error.message : "its MANIFEST is missing or damaged";
  }
  for (const snapshot::FileEntry& file : manifest->files()) {
    if (!is_right(file)) return file.name + " is damaged";
  }
  return "";
}

std::string damage_here(const std::string& folder) {
  const SnapshotFolder here(folder);
  return damage_of(snapshot::decode_manifest(here.manifest()),
                   [&](const snapshot::FileEntry& file) {
                     const auto content = here.open(file.name);
                     struct stat info {};
                     if (!content || ::fstat(content->get(), &info) != 0 ||
                         static_cast<std::uint64_t>(info.st_size) != file.size) {
                       return false;
                     }
                     const auto digest = sha256_of_fd(content->get(), file.size);
                     return digest && *digest == file.sha256;
                   });
}

std::string base_snapshot_of(const Result<snapshot::Manifest>& manifest) {
  return manifest && manifest->info.base ? manifest->info.base->name : "";
}

}  // namespace paddle::cli
