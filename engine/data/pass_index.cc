#include "engine/data/pass_index.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/rng.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kIndexVersion = 1;
constexpr std::size_t kKeyAt = 0;
constexpr std::size_t kCountAt = 8;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::uint64_t kEntriesMin = 4;

// Hash of a list of values; texts and lists are hashed with their length.
class KeyHash {
 public:
  void add(std::uint64_t value) { hash_ = hash_combine(hash_, value); }
  void add(std::string_view text) { add(hash_combine(text.size(), stable_hash(text))); }
  void add(const std::vector<std::string>& texts) {
    add(texts.size());
    for (const std::string& text : texts) add(text);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = kIndexVersion;
};

// `missing_value` and `bucket_edges` of a slot are in its fits.
void add_fits(const std::vector<config::ColumnFit>& fits, KeyHash& hash) {
  for (const config::ColumnFit& fit : fits) {
    for (const double constant : {fit.fill, fit.offset, fit.scale})
      hash.add(std::bit_cast<std::uint64_t>(constant));
    hash.add(fit.edges.size());
    for (const double edge : fit.edges) hash.add(std::bit_cast<std::uint64_t>(edge));
  }
}

void add_slots(const std::vector<config::DataSlotConfig>& slots, KeyHash& hash) {
  hash.add(slots.size());
  for (const config::DataSlotConfig& slot : slots) {
    const auto& [name, type, width, used, columns, separator, labels, learns_labels, missing,
                 missing_value, missing_indicator, normalize, bucket_count, bucket_edges, fits] =
        slot;
    hash.add(name);
    hash.add(static_cast<std::uint64_t>(type));
    hash.add(width);
    hash.add(std::uint64_t{used});
    hash.add(columns.size());
    for (const std::uint32_t column : columns) hash.add(column);
    hash.add(static_cast<std::uint64_t>(separator));
    hash.add(labels);
    if (!slot.is_prepared()) continue;
    hash.add(static_cast<std::uint64_t>(missing));
    hash.add(static_cast<std::uint64_t>(normalize));
    hash.add(std::uint64_t{missing_indicator});
    hash.add(bucket_count);
    add_fits(fits, hash);
  }
}

// Names every member of DataConfig, so that a new member does not compile before it is added here
// or left out on purpose.
void add_data(const config::DataConfig& data, KeyHash& hash) {
  const auto& [train, test, test_fraction, split_by, format, dictionary, dictionary_size, weight,
               statistics, ngram, slots, columns, delimiter, has_header, trim, float_label, labels,
               buckets, command, pipe_command, pipe_timeout, threads, files_at_once, global_shuffle,
               cache, cache_bytes_max, skip_bad_records] = data;
  if (test_fraction > 0) {
    hash.add(std::bit_cast<std::uint64_t>(test_fraction));
    hash.add(split_by);
  }
  hash.add(format);
  hash.add(dictionary);
  hash.add(dictionary_size);
  hash.add(ngram);
  add_slots(slots, hash);
  hash.add(columns);
  hash.add(static_cast<std::uint64_t>(delimiter));
  hash.add(std::uint64_t{has_header});
  hash.add(std::uint64_t{trim});
  hash.add(std::uint64_t{float_label});
  hash.add(labels);
  hash.add(buckets);
  hash.add(command);
  hash.add(pipe_command);
  hash.add(files_at_once);
  hash.add(std::uint64_t{global_shuffle});
  hash.add(std::uint64_t{skip_bad_records});
}

void add_rules(const std::vector<nn::SlotRule>& rules, KeyHash& hash) {
  hash.add(rules.size());
  for (const nn::SlotRule& rule : rules) {
    hash.add(rule.slot);
    hash.add(rule.below);
    hash.add(rule.except.value_or(rule.below));
    hash.add(std::uint64_t{rule.is_single} + 2 * std::uint64_t{rule.is_binary});
  }
}

}  // namespace

std::uint64_t reader_key(const config::DataConfig& data) {
  KeyHash hash;
  add_data(data, hash);
  return hash.value();
}

namespace {

// Adds a file's path, size and time of change; only the name of an object.
void add_file(const std::string& path, bool is_object, KeyHash& hash) {
  struct stat status {};
  if (is_object || ::stat(path.c_str(), &status) != 0) status = {};  // the reader reports it
  hash.add(path);
  hash.add(static_cast<std::uint64_t>(status.st_size));
  hash.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
  hash.add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
}

}  // namespace

std::uint64_t pass_key(const DatasetOptions& options, std::uint32_t pass) {
  KeyHash hash;
  hash.add(pass);
  add_data(options.data, hash);
  add_rules(options.rules, hash);
  hash.add(options.share.files.size());
  for (const std::string& file : options.share.files)
    add_file(file, !options.data.command.empty(), hash);
  hash.add(std::uint64_t{options.share.records_split});
  hash.add(options.folder);
  hash.add(options.trainer_id);
  hash.add(options.num_trainers);
  hash.add(options.seed);
  hash.add(options.shuffle_records);
  hash.add(std::uint64_t{options.held_out});
  return hash.value();
}

PassIndex::PassIndex(std::span<std::byte> memory, std::uint64_t key) : memory_(memory), key_(key) {
  PADDLE_CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(std::uint64_t) == 0);
  if (memory.size() > kHeaderBytes) capacity_ = (memory.size() - kHeaderBytes) / sizeof(Entry);
  if (capacity_ < kEntriesMin) capacity_ = 0;
  if (capacity_ > 0 && !is_whole()) clear();
}

bool PassIndex::is_whole() const {
  if (word(kKeyAt) != key_) return false;
  const std::uint64_t count = word(kCountAt);
  for (std::uint64_t number = first(); number < count; ++number) {
    const Entry one = entry(number);
    if (one.checksum != checksum(number, one.chunk)) return false;
  }
  return true;
}

// Sets the count to 0 before it changes the key, and add() writes an entry before it counts it,
// because the process may be killed between any two stores.
void PassIndex::clear() {
  if (capacity_ == 0) return;
  set_word(kCountAt, 0);
  set_word(kKeyAt, key_);
}

void PassIndex::add(std::uint64_t number, const IndexedChunk& chunk) {
  if (capacity_ == 0 || number != word(kCountAt)) return;
  const Entry one{chunk, checksum(number, chunk)};
  std::memcpy(memory_.data() + kHeaderBytes + number % capacity_ * sizeof(Entry), &one,
              sizeof(one));
  set_word(kCountAt, number + 1);
}

// Leaves out the entry that the next add() replaces, because it may be half replaced.
std::uint64_t PassIndex::first() const {
  if (capacity_ == 0) return 0;
  const std::uint64_t count = word(kCountAt);
  return count < capacity_ ? 0 : count - capacity_ + 1;
}

std::vector<IndexedChunk> PassIndex::chunks() const {
  std::vector<IndexedChunk> chunks;
  if (capacity_ == 0) return chunks;
  const std::uint64_t count = word(kCountAt);
  for (std::uint64_t number = first(); number < count; ++number) {
    chunks.push_back(entry(number).chunk);
  }
  return chunks;
}

std::uint64_t PassIndex::checksum(std::uint64_t number, const IndexedChunk& chunk) const {
  static_assert(std::has_unique_object_representations_v<IndexedChunk>);
  std::uint64_t sum = hash_combine(key_, number);
  using Words = std::array<std::uint64_t, sizeof(IndexedChunk) / sizeof(std::uint64_t)>;
  for (const std::uint64_t one : std::bit_cast<Words>(chunk)) sum = hash_combine(sum, one);
  return sum;
}

PassIndex::Entry PassIndex::entry(std::uint64_t number) const {
  Entry one;
  std::memcpy(&one, memory_.data() + kHeaderBytes + number % capacity_ * sizeof(Entry),
              sizeof(one));
  return one;
}

std::uint64_t PassIndex::word(std::size_t at) const {
  auto& stored = *reinterpret_cast<std::uint64_t*>(memory_.data() + at);
  return std::atomic_ref(stored).load(std::memory_order_acquire);
}

void PassIndex::set_word(std::size_t at, std::uint64_t value) {
  auto& stored = *reinterpret_cast<std::uint64_t*>(memory_.data() + at);
  std::atomic_ref(stored).store(value, std::memory_order_release);
}

}  // namespace paddle::data
