// A push as the node sees it: what it lacks, what arrives, and at the end every file in its place.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent/store/incoming_file.h"
#include "remote/agent/store/store.h"
#include "remote/agent/store/store_peer.h"

namespace paddle::agent {

constexpr std::size_t kPushEntriesMax = 1'000'000;

class IncomingPush {
 public:
  explicit IncomingPush(const Root& root) : root_(root) {}

  // Indices into this manifest of the files to send; of several that are the same, one. Refuses
  // names that SafePath refuses, names given twice, links that leave the root.
  Result<wire::agent::ManifestReply> manifest(bool first, const wire::agent::Manifest& manifest);
  // The bits of AGENT_CHUNKS after the last part, nothing before.
  Result<Bytes> chunks(const wire::agent::ChunksRequest& request, ByteSpan part);
  // After the answer to chunks(): what can be copied here is. An error shows in the next call.
  void copy_known();
  Status put(const wire::agent::Put& put, ByteSpan tail);
  // The same from another node; what did not come is still lacking. kData for what no blob can be.
  Result<wire::agent::PullReply> pull(const wire::agent::PullRequest& request, ByteSpan token);
  // Nothing is placed unless all is there. Then what no job uses leaves the store. keep_only: a
  // folder, as in pushed_files.h, or "".
  Status place(const std::string& keep_only = "");

 private:
  struct Entry {
    std::string path;
    std::string link;
    ObjectKey key;
    std::uint64_t size = 0;
  };
  struct Folder {  // the last one that something was placed in
    std::string path;
    UniqueFd fd;
  };

  Status add_entry(const wire::agent::PushEntry& file, bool& missing);
  Result<Piece> piece_of(const wire::agent::Put::Blob& blob) const;
  Status put_blob(const wire::agent::Put::Blob& blob, ByteSpan bytes);
  Status open_folder(const std::string& path, Folder& folder);
  Result<bool> place_link(const Entry& entry, const Folder& folder, const std::string& name);
  void reset();

  const Root& root_;
  std::unique_ptr<Store> store_;
  std::vector<Entry> entries_;
  std::set<std::string> paths_;
  std::set<std::string> missing_;  // names of objects
  Bytes list_;                     // of the file whose chunks are being told
  std::unique_ptr<ChunkMap> map_;
  std::map<std::uint32_t, std::unique_ptr<IncomingFile>> files_;
  std::uint32_t told_ = 0;  // the file whose chunks were told last
  Status late_;
};

// The target of a link at `path` stays below root, as far as names can tell.
bool link_stays_inside(const std::string& path, const std::string& target);

}  // namespace paddle::agent
