#include "engine/data/chunk_parser.h"

#include <fmt/format.h>

namespace paddle::data {

// Messages count lines from 1.
Error ChunkParser::at(const Chunk& chunk, std::uint64_t line, Error error) const {
  return std::move(error).with(fmt::format("{}:{}", options_.share.files[chunk.file], line + 1));
}

Status ChunkParser::parse_lines(const Chunk& chunk, RecordBlock& block) {
  Lines lines(as_text(chunk.text), chunk.first_line);
  while (const auto line = lines.next()) {
    const std::uint64_t number = lines.number();
    if (number == 0 && format_->has_header()) {
      // This is no bad record to leave out: every line after it would be misread.
      auto good = format_->check_header(*line);
      if (!good) return at(chunk, number, std::move(good).error());
      continue;
    }
    if (!filter_.takes(chunk.file, number)) continue;
    const RecordBlock::Extent begin = block.end();
    Status parsed =
        chunk.is_too_long
            ? Status(Error{Errc::kData, fmt::format("a line of over {} bytes", kLineBytesMax), ""})
            : format_->parse(*line, block);
    if (parsed) continue;
    block.drop_since(begin);
    Error error = at(chunk, number, std::move(parsed).error());
    if (!options_.data.skip_bad_records) {
      error.hint = "[data] on_bad_record = \"skip\" leaves such records out and counts them";
      return error;
    }
    if (block.bad_records++ == 0) block.first_bad_record = std::move(error.message);
  }
  return {};
}

void ChunkParser::parse(const Chunk& chunk, RecordBlock& block) {
  block.clear();
  block.outcome = parse_lines(chunk, block);
}

}  // namespace paddle::data
