#include "remote/launcher/known_hosts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <libssh/libssh.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/text_file.h"
#include "remote/launcher/ssh_config.h"

namespace paddle::remote {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kHashMark = "|1|";
constexpr std::size_t kPatternBytesMax = 1024;  // as in ssh
constexpr std::size_t kHashBytesMax = 64;       // for a salt or a hash

char lower(char c) {
  return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

// '*' stands for any text, '?' for one character. The time is at most the product of both sizes.
bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_text = 0;
  std::size_t star = pattern.npos;  // the last '*', and where its match begins
  std::size_t begin = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      begin = in_text;
    } else if (at < pattern.size() && (pattern[at] == '?' || lower(pattern[at]) == text[in_text])) {
      ++at;
      ++in_text;
    } else if (star != pattern.npos) {
      at = star + 1;
      in_text = ++begin;
    } else {
      return false;
    }
  }
  return pattern.substr(at).find_first_not_of('*') == pattern.npos;
}

bool matches_list(std::string_view list, std::string_view host) {
  bool found = false;
  for (;;) {
    const std::string_view one = list.substr(0, list.find(','));
    const bool negated = one.starts_with('!');
    const std::string_view pattern = one.substr(negated ? 1 : 0);
    if (pattern.size() >= kPatternBytesMax) return false;
    if (matches_pattern(pattern, host)) {
      if (negated) return false;
      found = true;
    }
    if (one.size() == list.size()) return found;
    list.remove_prefix(one.size() + 1);
  }
}

// Decodes base64; nullopt for text that is not base64, or is too long.
std::optional<std::vector<unsigned char>> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > 2 * kHashBytesMax) return std::nullopt;
  std::vector<unsigned char> bytes(text.size());
  const int size =
      ::EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                        static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  const auto padding =
      static_cast<std::size_t>(std::ranges::count(text.substr(text.size() - 2), '='));
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

// "|1|salt|HMAC-SHA1(salt, host)".
bool matches_hash(std::string_view field, std::string_view host) {
  field.remove_prefix(kHashMark.size());
  const std::size_t bar = field.find('|');
  if (bar == field.npos) return false;
  const auto salt = from_base64(field.substr(0, bar));
  if (!salt) return false;
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned size = 0;
  if (::HMAC(::EVP_sha1(), salt->data(), static_cast<int>(salt->size()),
             reinterpret_cast<const unsigned char*>(host.data()), host.size(), hash.data(),
             &size) == nullptr) {
    return false;
  }
  return base64(std::span(hash).first(size)) == field.substr(bar + 1);
}

std::string_view next_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
  rest.remove_prefix(word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  return word;
}

// Returns the key as libssh encodes it again; nullopt for a type that libssh does not support, and
// for a key that is cut off or damaged.
std::optional<std::string> checked_key(std::string_view type, std::string_view key) {
  const std::string text(key);
  ssh_key raw = nullptr;
  const ssh_keytypes_e kind = ::ssh_key_type_from_name(std::string(type).c_str());
  if (kind == SSH_KEYTYPE_UNKNOWN ||
      ::ssh_pki_import_pubkey_base64(text.c_str(), kind, &raw) != SSH_OK) {
    return std::nullopt;
  }
  const KeyHandle handle(raw);
  char* encoded = nullptr;
  if (::ssh_key_type(handle.get()) != kind ||
      ::ssh_pki_export_pubkey_base64(handle.get(), &encoded) != SSH_OK) {
    return std::nullopt;
  }
  std::string again = encoded;
  ::ssh_string_free_char(encoded);
  if (again != text) return std::nullopt;
  return again;
}

}  // namespace

bool names_host(std::string_view field, std::string_view host) {
  if (field.starts_with('|')) return field.starts_with(kHashMark) && matches_hash(field, host);
  return matches_list(field, host);
}

void KnownHosts::read(const std::string& file) {
  errno = 0;
  std::ifstream lines(file);  // without a limit on its size
  if (!lines && errno != ENOENT)
    unread_.push_back(fmt::format("{}: {}", file, std::strerror(errno)));
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) add_line(line, file, number);
}

void KnownHosts::add(std::string_view text, const std::string& file) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    add_line(line, file, number);
  }
}

void KnownHosts::add_line(std::string_view line, const std::string& file, std::size_t number) {
  if (number == 1) line = without_byte_order_mark(line);
  while (line.ends_with('\r')) line.remove_suffix(1);
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  if (line.empty() || line.front() == '#') return;
  constexpr std::string_view kRevoked = "@revoked";
  constexpr std::string_view kAuthority = "@cert-authority";
  std::string_view marker;
  if (line.front() == '@') marker = next_word(line);
  if (!marker.empty() && marker != kRevoked && marker != kAuthority) return;
  const std::string_view hosts = next_word(line);
  const std::string_view type = next_word(line);
  const std::string_view key = next_word(line);
  if (hosts.empty() || key.empty()) return;
  Kind kind = Kind::kRevoked;  // a revoked key counts for every host
  if (marker != kRevoked) {
    const bool is_named = names_host(hosts, name_.name);
    if (!is_named && (name_.without_port.empty() || !names_host(hosts, name_.without_port))) {
      return;
    }
    kind = marker == kAuthority ? Kind::kAuthority : is_named ? Kind::kKey : Kind::kKeyWithoutPort;
  }
  auto good = checked_key(type, key);
  if (good)
    entries_.push_back(
        {kind, std::string(type), *std::move(good), fmt::format("{}:{}", file, number)});
}

std::vector<std::string> KnownHosts::types() const {
  std::vector<std::string> types;
  for (const Kind kind : {Kind::kKey, Kind::kKeyWithoutPort}) {
    for (const Entry& entry : entries_) {
      if (entry.kind == kind && std::ranges::find(types, entry.type) == types.end())
        types.push_back(entry.type);
    }
    if (!types.empty()) break;
  }
  return types;
}

HostKeyVerdict KnownHosts::check(std::string_view key) const {
  const Entry* same = nullptr;
  const Entry* other = nullptr;
  const Entry* same_without_port = nullptr;
  HostKeyVerdict verdict;
  for (const Entry& entry : entries_) {
    const bool is_same = entry.key == key;
    if (entry.kind == Kind::kRevoked && is_same) return {HostKeyState::kRevoked, entry.place, ""};
    if (entry.kind == Kind::kAuthority && verdict.authority.empty())
      verdict.authority = entry.place;
    if (entry.kind == Kind::kKey && is_same && same == nullptr) same = &entry;
    if (entry.kind == Kind::kKey && !is_same && other == nullptr) other = &entry;
    if (entry.kind == Kind::kKeyWithoutPort && is_same && same_without_port == nullptr)
      same_without_port = &entry;
  }
  if (same == nullptr && other == nullptr) same = same_without_port;
  if (same != nullptr) return {HostKeyState::kKnown, same->place, ""};
  if (other != nullptr) return {HostKeyState::kChanged, other->place, ""};
  return verdict;
}

}  // namespace paddle::remote
