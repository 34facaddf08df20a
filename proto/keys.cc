#include "proto/keys.h"

#include <string.h>

#include <algorithm>

#include <fmt/format.h>

namespace paddle {
namespace {

constexpr std::string_view kFileMagic = "PDLKEYS1";
constexpr std::string_view kServerPurpose = "paddlectl keys 1 server";
constexpr std::string_view kPairPurpose = "paddlectl keys 1 pair";
constexpr std::size_t kNodeBytes = 4;
constexpr std::size_t kHeaderBytes = kFileMagic.size() + kNodeBytes;
constexpr std::size_t kEntryBytes = kNodeBytes + kSecretBytes;
constexpr std::size_t kFileBytesMax = 4U << 20U;

using PackedNode = std::array<std::byte, kNodeBytes>;

PackedNode packed(NodeId node) {
  PackedNode bytes;
  store_le(bytes.data(), pack(node));
  return bytes;
}

Secret server_key(const Secret& job, NodeId server) {
  return derive_secret(job, kServerPurpose, packed(server));
}

Secret pair_key(const Secret& of_server, NodeId client) {
  return derive_secret(of_server, kPairPurpose, packed(client));
}

void append_entry(Bytes& file, NodeId server, const Secret& key) {
  append_bytes<std::byte>(file, packed(server));
  append_bytes<std::byte>(file, key.reveal());
}

}  // namespace

JobKeys JobKeys::of_job(const Secret& secret) {
  JobKeys keys;
  keys.job_ = secret;
  return keys;
}

Result<JobKeys> JobKeys::read(const std::string& key_file) {
  PADDLE_TRY(Bytes bytes, read_secret_file(key_file, kFileBytesMax));
  auto keys = decode(bytes);
  ::explicit_bzero(bytes.data(), bytes.size());
  if (!keys) return std::move(keys).error().with("key file " + key_file);
  return keys;
}

Result<JobKeys> JobKeys::decode(ByteSpan file) {
  if (file.size() == kSecretBytes) {
    PADDLE_TRY(const Secret secret, Secret::from_bytes(file));
    return of_job(secret);
  }
  const ByteSpan magic = as_bytes(kFileMagic);
  if (file.size() < kHeaderBytes || (file.size() - kHeaderBytes) % kEntryBytes != 0 ||
      !std::ranges::equal(magic, file.first(magic.size()))) {
    return Error{Errc::kAuth,
                 fmt::format("it contains neither a key of {} bytes nor the keys of a process",
                             kSecretBytes),
                 ""};
  }
  JobKeys keys;
  keys.process_.emplace();
  keys.process_->self = unpack(load_le<std::uint32_t>(file.data() + magic.size()));
  for (file = file.subspan(kHeaderBytes); !file.empty(); file = file.subspan(kEntryBytes)) {
    PADDLE_TRY(const Secret key, Secret::from_bytes(file.subspan(kNodeBytes, kSecretBytes)));
    keys.process_->keys.emplace_back(unpack(load_le<std::uint32_t>(file.data())), key);
  }
  return keys;
}

Result<Secret> JobKeys::pair(NodeId client, NodeId server) const {
  if (job_) return pair_key(server_key(*job_, server), client);
  const auto found =
      std::ranges::find(process_->keys, server, [](const auto& entry) { return entry.first; });
  const bool is_ours = server == process_->self || client == process_->self;
  if (!is_ours || found == process_->keys.end()) {
    return Error{Errc::kAuth, "there is no key for this pair of processes",
                 "give every process its own key file"};
  }
  return server == process_->self ? pair_key(found->second, client) : found->second;
}

Bytes encode_keys(const Secret& job, NodeId self, bool serves, std::span<const NodeId> servers) {
  Bytes file;
  // Growth of the vector would leave copies of keys in freed memory.
  file.reserve(kHeaderBytes + (servers.size() + 1) * kEntryBytes);
  append_bytes<std::byte>(file, as_bytes(kFileMagic));
  append_bytes<std::byte>(file, packed(self));
  if (serves) append_entry(file, self, server_key(job, self));
  for (const NodeId server : servers)
    append_entry(file, server, pair_key(server_key(job, server), self));
  return file;
}

Secret peer_caller_key(const Secret& token, const std::uint32_t caller) {
  return derive_secret(token, "paddlectl peer 1 caller key", bytes_of(std::span(&caller, 1)));
}

PeerKeys derive_peer_keys(const Secret& caller_key, const PeerTranscript& transcript) {
  Bytes facts;
  append_le(facts, transcript.caller);
  append_bytes<std::byte>(facts, transcript.caller_nonce);
  append_bytes<std::byte>(facts, transcript.listener_nonce);
  append_bytes<std::byte>(facts, as_bytes(transcript.service));
  return {derive_secret(caller_key, "paddlectl peer 1 caller proof", facts),
          derive_secret(caller_key, "paddlectl peer 1 listener proof", facts),
          derive_secret(caller_key, "paddlectl peer 1 caller seal", facts),
          derive_secret(caller_key, "paddlectl peer 1 listener seal", facts)};
}

}  // namespace paddle
