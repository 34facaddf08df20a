// A snapshot and a delta of it as release 0.1 wrote them, in format 1: pass-00001 and pass-00000.
#pragma once

#include <string_view>

namespace paddle::snapshot {

struct FormatOneFile {
  std::string_view path;
  std::string_view text;  // of MANIFEST
  std::string_view hex;   // of the others
};

constexpr FormatOneFile kFormatOneFiles[] = {
    {"pass-00000/MANIFEST",
     "snapshot format=1 engine=0.1.0\n"
     "progress pass=4 step=1234567890123 seed=18446744073709551615 samples=987654321012\n"
     "base crc32c=b199e04c name=pass-00001\n"
     "optimizer method=adam learning_rate=0.003 momentum=0.5 beta1=0.9 beta2=0 epsilon=1e-30 r"
     "ho=0.95 beta=2 weight_decay=0.03 centered=0 average_window=0.15\n"
     "trainer id=0 cursor=7 batches=3\n"
     "trainer id=1 cursor=0 batches=0\n"
     "trainer id=2 cursor=9 batches=4\n"
     "parameter kind=dense dims=2 initial_mean=0 initial_std=0.1 learning_rate=2 l2=0.0008 sta"
     "tic=0 state_width=2 rows=0 files=2 name=_fc.wbias\n"
     "file size=24 crc32c=e195fc56 name=_fc.wbias\n"
     "file size=60 crc32c=7059f117 name=_fc.wbias.state\n"
     "parameter kind=sparse dims=0x3 initial_mean=0 initial_std=0 learning_rate=1 static=0 sta"
     "te_width=2 rows=2 decay=0.5 removed=2 files=2 name=my table\n"
     "file size=164 crc32c=975bfc78 name=my table.sparse-00000\n"
     "file size=60 crc32c=7059f117 name=my table.sparse-removed\n"
     "crc32c c6b727e5\n",
     ""},
    {"pass-00000/_fc.wbias", "", "000000000400000002000000000000000000803f000020c0"},
    {"pass-00000/_fc.wbias.state", "",
     "504442310100000002000000000000000200000000001000110000000000000000000000eb4e01170000803f"
     "0000004000004040000080400a69ba9e"},
    {"pass-00000/my table.sparse-00000", "",
     "5044423102000000030000000000000002000000000010000000000000000000010000001912e20600000000"
     "0000000001000000000000000000803f0000004000004040000080400000a0400000c0400000e04000000041"
     "000010410000000000000000ffffffffffffffff0500000000000000000080bf000000006042a20d00000000"
     "00000000000000000000803f0000803f0000803f000000000000000004e5ff86"},
    {"pass-00000/my table.sparse-removed", "",
     "50444231030000000100000000000000000000000000100000000000000000000000000089e741c906000000"
     "000000004d00000000000000ae6b9a55"},
    {"pass-00001/MANIFEST",
     "snapshot format=1 engine=0.1.0\n"
     "progress pass=2 step=1234567890123 seed=18446744073709551615 samples=987654321012\n"
     "optimizer method=adam learning_rate=0.003 momentum=0.5 beta1=0.9 beta2=0 epsilon=1e-30 r"
     "ho=0.95 beta=2 weight_decay=0.03 centered=0 average_window=0.15\n"
     "trainer id=0 cursor=7 batches=3\n"
     "trainer id=1 cursor=0 batches=0\n"
     "trainer id=2 cursor=9 batches=4\n"
     "parameter kind=dense dims=2 initial_mean=0 initial_std=0.1 learning_rate=2 l2=0.0008 sta"
     "tic=0 state_width=2 rows=0 files=2 name=_fc.wbias\n"
     "file size=24 crc32c=e195fc56 name=_fc.wbias\n"
     "file size=60 crc32c=7059f117 name=_fc.wbias.state\n"
     "parameter kind=sparse dims=0x3 initial_mean=0 initial_std=0 learning_rate=1 static=0 sta"
     "te_width=2 rows=4 decay=0.5 files=1 name=my table\n"
     "file size=284 crc32c=892b4ea8 name=my table.sparse-00000\n"
     "crc32c 0149fd9f\n",
     ""},
    {"pass-00001/_fc.wbias", "", "000000000400000002000000000000000000803f000020c0"},
    {"pass-00001/_fc.wbias.state", "",
     "504442310100000002000000000000000200000000001000110000000000000000000000eb4e01170000803f"
     "0000004000004040000080400a69ba9e"},
    {"pass-00001/my table.sparse-00000", "",
     "5044423102000000030000000000000002000000000010000000000000000000010000001912e20600000000"
     "0000000001000000000000000000e0400000004000004040000080400000a0400000c0400000e04000000041"
     "000010410000000000000000ffffffffffffffff0500000000000000000080bf000000006042a20d00000000"
     "00000000000000000000803f0000803f0000803f000000000000000005000000000000000000000001000000"
     "00000000000000000000803f0000000000000000000000000000000000000000000000000000004100008040"
     "0600000000000000000000000100000000000000000000000000803f00000000000000000000000000000000"
     "00000000000000000000004100008040680ecf28"},
};

}  // namespace paddle::snapshot
