#include "remote/agent/machine/own_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/file_stamp.h"
#include "base/sha256.h"
#include "base/text.h"
#include "remote/agent/machine/proc.h"

namespace paddle::agent {
namespace {

constexpr const char* kProgram = "/proc/self/exe";
constexpr std::size_t kNoteBytesMax = 100;

// True when the record is of this boot and the program was not written since.
bool is_verified(const std::string& note, const std::string& boot) {
  struct stat program {};
  struct stat noted {};
  if (::stat(kProgram, &program) != 0 || ::stat(note.c_str(), &noted) != 0) return false;
  if (stamp_of(program).modified_ns > stamp_of(noted).modified_ns) return false;
  const auto text = read_file(note, kNoteBytesMax);
  return text && *text == boot;
}

}  // namespace

bool own_program_is(const std::string& hash) {
  std::error_code error;
  const std::string note = std::filesystem::read_symlink(kProgram, error).string() + ".verified";
  const std::string boot = boot_id();
  if (!error && !boot.empty() && is_verified(note, boot)) return true;
  const auto found = sha256_of_file(kProgram);
  if (!found || to_hex(*found) != hash) return false;
  // Without the record the next start hashes again.
  if (!error && !boot.empty()) (void)replace_file(note, as_bytes(boot));
  return true;
}

}  // namespace paddle::agent
