#include "engine/data/file_kind.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

namespace paddle::data {
namespace {

struct Kind {
  std::string_view magic;
  std::string_view name;
  std::string_view hint;
};

constexpr std::size_t kSearchedBytes = 4096;  // for a zero byte
constexpr std::string_view kRename =
    "a file whose name ends in .gz, .zst, .bz2 or .xz is decompressed";
constexpr std::string_view kSheet = "save the sheet as \"CSV UTF-8\"";
constexpr std::string_view kPandas =
    "write its table as csv: pandas' to_csv(\"new.csv\", index=False)";

constexpr std::array<Kind, 5> kCompressed{{{"\x1f\x8b", "gzip", kRename},
                                           {"\x28\xb5\x2f\xfd", "zstd", kRename},
                                           {"BZh?1AY&SY", "bzip2", kRename},
                                           {"BZh?\x17rE8P\x90", "bzip2", kRename},
                                           {"\xfd"
                                            "7zXZ",
                                            "xz", kRename}}};
constexpr std::string_view kPipe =
    "[data] pipe_command names a program that prints its text: [\"lz4\", \"-dc\"]";
constexpr std::array<Kind, 9> kBinary{
    {{"\x04\x22\x4d\x18", "compressed by lz4", kPipe},
     {std::string_view("]\0\0", 3), "compressed by lzma", "xz -dc <OLD | xz >NEW.xz"},
     {"\x1f\x9d", "compressed by compress", "gzip -dc OLD | gzip >NEW.gz"},
     {"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"},
     {"Rar!\x1a\x07", "a rar archive", "unpack it"},
     {"PK\x03\x04", "a zip archive, as .xlsx and .npz files are",
      "save a sheet as \"CSV UTF-8\", unpack an archive, and read .npz by format = \"npz\""},
     {"\xd0\xcf\x11\xe0\xa1\xb1", "an old Excel spreadsheet", kSheet},
     {"\x89HDF\r\n", "an HDF5 file", kPandas},
     {"\x93NUMPY", "a numpy array", "format \"npz\" reads files of numpy.savez(name=array)"}}};
// A text may begin with these too, but has no zero bytes.
constexpr std::array<Kind, 5> kWithZeros{
    {{"PAR1", "a Parquet file", kPandas},
     {"ARROW1", "an Arrow file", kPandas},
     {"ORC", "an ORC file", kPandas},
     {"Obj\x01", "an Avro file", kPandas},
     {"SQLite format 3", "an SQLite database",
      "write a table as csv: sqlite3 -csv FILE 'select * from TABLE' >new.csv"}}};

// '?' in the magic is any byte.
bool has_magic(std::string_view head, std::string_view magic) {
  return head.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), head.begin(),
                    [](char expected, char found) { return expected == '?' || expected == found; });
}

bool is_utf16(std::string_view head) {
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) return true;
  if (head.size() < 4) return false;
  const bool is_little = head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0;
  const bool is_big = head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0;
  return is_little || is_big;
}

// "UTF-32" as iconv names it, with the order of the bytes if no mark shows it; "" for other text.
// Its mark begins with that of UTF-16.
std::string_view utf32_of(std::string_view head) {
  constexpr std::size_t kCharacter = 4;
  if (head.size() < kCharacter) return "";
  const std::string_view first = head.substr(0, kCharacter);
  if (first == std::string_view("\xff\xfe\0\0", 4) || first == std::string_view("\0\0\xfe\xff", 4))
    return "UTF-32";
  const std::string_view second = head.substr(kCharacter, kCharacter);
  if (second.size() < kCharacter) return "";
  const auto is_little = [](std::string_view one) {
    return one[0] != 0 && one.find_first_not_of('\0', 1) == one.npos;
  };
  const auto is_big = [](std::string_view one) { return one.find_first_not_of('\0') == 3; };
  if (is_little(first) && is_little(second)) return "UTF-32LE";
  return is_big(first) && is_big(second) ? "UTF-32BE" : "";
}

Error not_utf8(std::string_view kind, std::string_view encoding) {
  return {Errc::kData, fmt::format("it is {} text", kind),
          fmt::format("make it UTF-8: iconv -f {} -t UTF-8 OLD >NEW, or save it as \"CSV UTF-8\"",
                      encoding)};
}

Error not_lines(std::string_view name, std::string_view hint) {
  return {Errc::kData, fmt::format("it is {}, not lines of text", name), std::string(hint)};
}

}  // namespace

std::string_view compression_of(std::string_view head) {
  const auto* const found = std::ranges::find_if(
      kCompressed, [&](const Kind& kind) { return has_magic(head, kind.magic); });
  return found == kCompressed.end() ? "" : found->name;
}

Status check_is_text(std::string_view head) {
  if (const std::string_view name = compression_of(head); !name.empty()) {
    return Error{Errc::kData,
                 fmt::format("it is compressed by {}, but its name does not show it", name),
                 std::string(kRename)};
  }
  if (const std::string_view encoding = utf32_of(head); !encoding.empty())
    return not_utf8("UTF-32", encoding);
  if (is_utf16(head)) return not_utf8("UTF-16", "UTF-16");
  const auto find = [&](std::span<const Kind> kinds) {
    const auto found =
        std::ranges::find_if(kinds, [&](const Kind& kind) { return has_magic(head, kind.magic); });
    return found == kinds.end() ? Status() : not_lines(found->name, found->hint);
  };
  PADDLE_TRY_STATUS(find(kBinary));
  if (head.find('\0') >= kSearchedBytes) return {};
  constexpr std::size_t kTarMagicAt = 257;
  if (head.size() > kTarMagicAt && head.substr(kTarMagicAt).starts_with("ustar"))
    return not_lines("a tar archive", "unpack it: tar -xf FILE");
  return find(kWithZeros);
}

}  // namespace paddle::data
