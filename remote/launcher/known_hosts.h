// The lines of known_hosts files about a host, read as OpenSSH reads them (sshd(8), SSH_KNOWN_HOSTS
// FILE FORMAT; match_hostname() and hostkeys_foreach() of its sources). A line that cannot be
// parsed is skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paddle::remote {

// Whether the first field of a line matches the host, which is in lower case. The field is a list
// of patterns with '*', '?' and '!', or one hashed name.
bool names_host(std::string_view field, std::string_view host);

// The names that a host has in known_hosts.
struct KnownName {
  std::string name;          // "node1", "[node1]:2222", or its HostKeyAlias; in lower case
  std::string without_port;  // "node1" for "[node1]:2222": ssh accepts that too; "": none
};

enum class HostKeyState : std::uint8_t { kUnknown, kKnown, kChanged, kRevoked };

struct HostKeyVerdict {
  HostKeyState state = HostKeyState::kUnknown;
  std::string place;  // "file:line" of the line that decided it; "" when unknown
  // "file:line" of a @cert-authority line for an unknown host; "": none.
  std::string authority;
};

class KnownHosts {
 public:
  explicit KnownHosts(KnownName name) : name_(std::move(name)) {}

  // Adds the lines of the file, if it exists.
  void read(const std::string& file);
  void add(std::string_view text, const std::string& file);

  // Types of the host's keys, such as "ssh-ed25519"; the server is asked for these first.
  std::vector<std::string> types() const;
  // `key` is the public key in base64.
  HostKeyVerdict check(std::string_view key) const;
  // "file: why" for each file that exists but could not be read.
  const std::vector<std::string>& unread() const { return unread_; }

 private:
  enum class Kind : std::uint8_t { kKey, kKeyWithoutPort, kRevoked, kAuthority };
  struct Entry {
    Kind kind;
    std::string type;
    std::string key;    // in base64
    std::string place;  // "file:line"
  };

  void add_line(std::string_view line, const std::string& file, std::size_t number);

  KnownName name_;
  std::vector<Entry> entries_;
  std::vector<std::string> unread_;
};

}  // namespace paddle::remote
