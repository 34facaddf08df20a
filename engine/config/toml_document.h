// The document behind a TomlTable: the parsed file, the tables opened so far, and the mistakes
// found in them. Only toml_reader.cc includes it.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 1
#include <toml++/toml.h>

#include "base/result.h"

namespace paddle::config {

constexpr std::size_t kMistakesMax = 16;  // kept; one of them is shown

// A position in the file or in an override, which `name` tells apart.
struct Location {
  std::string name;
  toml::source_position at;

  bool operator==(const Location&) const = default;
};

struct Mistake {
  Location location;
  std::string message;
  std::string hint;
  bool is_absence = false;     // of a key; the location is its table's
  bool is_wrong_type = false;  // the value is of another type than the key takes
};

struct OpenTable {
  toml::table* table = nullptr;
  toml::source_region source;           // for mistakes about the table itself
  std::vector<std::string_view> known;  // keys that were looked up, ascending
  std::string name = {};                // "train", of [train]; "" for one below another table

  bool knows(std::string_view key) const { return std::ranges::binary_search(known, key); }
};

struct TomlDocument {
  std::string name;
  std::string page;  // of the keys, in docs/
  std::string text;
  toml::table root;
  std::deque<toml::table> absent;  // stand for tables that were looked up in vain
  std::deque<OpenTable> open;
  std::unordered_map<const toml::table*, std::size_t> places;  // of tables in `open`
  std::set<std::string, std::less<>> words;                    // to which OpenTable::known points
  std::vector<Mistake> mistakes;
  std::optional<Location> decisive;  // a mistake there comes before all others

  Location locate(const toml::source_region& region) const {
    return {region.path ? *region.path : name, region.begin};
  }
  // "job.toml:12", or the name alone of an override and of the root.
  std::string place_of(const toml::source_region& region) const;
  void add(const toml::source_region& region, std::string message, std::string_view hint = "",
           bool is_absence = false) {
    keep({locate(region), std::move(message), std::string(hint), is_absence});
  }
  // Beyond kMistakesMax, the last in the order of verdict() is dropped.
  void keep(Mistake mistake);
  // The key counts as looked up from now on.
  void know(OpenTable& in, std::string_view key);
  void add_wrong_type(const toml::node& found, std::string_view key, std::string_view wanted);
  // The first of them in the order of verdict().
  void add_unknown_key();
  // The first mistake: absent keys come last because a misspelt key is absent too; those of the
  // file come before those of overrides, each in their order. An override of the wrong type comes
  // before the file: what the file lacks then may be what the override was meant to say.
  Status verdict() const;

  // A table opened twice stays one entry, so that a key looked up through either is known.
  std::size_t open_table(toml::table& table, const toml::source_region& source,
                         std::string_view called = "");
  // "train.passes": every key of a table that was looked up.
  std::vector<std::string> known_keys() const;
  // The known key that `unknown` in this table may stand for; "" for none.
  std::string meant_by(std::string_view unknown, const OpenTable& table) const;

  Result<toml::table> parse_text(std::string_view content, const std::string& source) const;
  Status apply(const std::string& override_text);

 private:
  std::string page_of(const Location& location) const;
  Error error(Mistake mistake) const;
  std::string below_a_table(std::string_view key) const;
};

}  // namespace paddle::config
