// Typed reader of a TOML file and of the --set values that override it. It reports a mistake with
// its line and column: a wrong type, a value out of range, or a key that the caller never looks up.
// The caller looks up all keys without checking for errors, and then calls finish() once.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::config {

struct TomlDocument;

// Bounds of a file in bytes, of an array in elements, and of one [[name]] in tables.
constexpr std::size_t kConfigBytesMax = 1U << 20U;
constexpr std::size_t kElementsMax = 100000;
constexpr std::size_t kTablesMax = 10000;

// A table of an open file, cheap to copy. Lookups return the default when the key is absent or
// wrong; finish() reports the mistake. Errors are kUsage: "job.toml:12:8: unknown key 'pases',
// did you mean 'passes'?", the line, a caret.
class TomlTable {
 public:
  // Overrides are "train.passes=3": dotted keys below tables; a value that is not TOML is a string.
  // `page` is the documentation of the keys, which errors name.
  static Result<TomlTable> read(const std::string& path,
                                const std::vector<std::string>& overrides = {},
                                std::string_view page = "docs/job.md");
  static Result<TomlTable> parse(std::string_view text, const std::string& name,
                                 const std::vector<std::string>& overrides = {},
                                 std::string_view page = "docs/job.md");

  // has(), is_string() and is_list() do not count as lookups.
  bool has(std::string_view key) const;
  bool is_string(std::string_view key) const;
  bool is_list(std::string_view key) const;

  std::string string(std::string_view key, std::string_view fallback = "");
  // One of `choices`, or an error that lists them.
  std::string choice(std::string_view key, std::string_view fallback,
                     std::span<const std::string_view> choices);
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t min = 0,
                       std::int64_t max = std::numeric_limits<std::int64_t>::max());
  double number(std::string_view key, double fallback,
                double min = std::numeric_limits<double>::lowest(),
                double max = std::numeric_limits<double>::max());
  bool boolean(std::string_view key, bool fallback);
  // Lists are empty, and add a mistake, when there are more than `at_most` elements.
  std::vector<std::string> strings(std::string_view key, std::size_t at_most = kElementsMax);
  std::vector<TomlTable> tables(std::string_view key, std::size_t at_most = kTablesMax);  // [[key]]
  // The strings of an array in which whole numbers also stand for their digits: ["no", 1].
  std::vector<std::string> words(std::string_view key, std::size_t at_most = kElementsMax);
  std::vector<double> numbers(std::string_view key, std::size_t at_most = kElementsMax);
  // The values of an array, each as TOML on one line, as --set takes it: 0.5, "a b", [1, 2].
  std::vector<std::string> literals(std::string_view key, std::size_t at_most = kElementsMax);
  TomlTable table(std::string_view key);  // empty when absent

  // Every key of each table that was looked up: "train.passes".
  std::vector<std::string> known_keys() const;

  // "job.toml:12", the line on which the table begins; the file's name alone for the root.
  std::string location() const;
  // The location of a key that is present: "job.toml:14", or "--set train.best=auc". This is no
  // lookup.
  std::string location(std::string_view key) const;

  const std::string& written_text() const;  // as it was read, without the overrides
  // The whole document as TOML, with the overrides applied. Comments are lost.
  std::string resolved_text() const;
  // Every value of the document as text, by its dotted key: "train.batch_size". The key of a table
  // in a list contains its name, or else its number: "layer.hidden.size", "data.slot.0.type".
  std::map<std::string, std::string> settings() const;
  // Sets the value at the key to this text; the key may be absent.
  void replace(std::string_view key, std::string_view value);

  // For two keys that exclude each other, if one is an override and the other is in the file:
  // removes the one in the file. For example, --set train.batch_size=64 over a file with
  // batch_size_total. Neither counts as looked up.
  void prefer_override(std::string_view key, std::string_view other);

  // Adds a mistake that the caller has found, at the key's value, or at the table when the key is
  // absent. The key counts as looked up.
  void fail(std::string_view key, std::string_view message, std::string_view hint = "");

  // A mistake at this key is reported before all others: the meaning of the other keys depends on
  // it.
  void decides(std::string_view key);

  // Returns the first mistake in the order of the file; absent keys come last. Call it once, after
  // every lookup.
  Status finish();

 private:
  TomlTable(std::shared_ptr<TomlDocument> document, std::size_t index)
      : document_(std::move(document)), index_(index) {}
  std::vector<std::string> texts(std::string_view key, std::size_t at_most, std::string_view wanted,
                                 bool takes_numbers);

  std::shared_ptr<TomlDocument> document_;
  std::size_t index_;  // in TomlDocument's list of opened tables
};

}  // namespace paddle::config
