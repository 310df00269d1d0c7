//! Tables of `protobuf`: HAProxy 2.6's answers, and what must hold for any input.

use proptest::prelude::*;

use crate::conv::testing::{World, check_all, check_refused};

#[test]
fn fields() {
    check_all(&[
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1),hex",
            Some("9601"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,int32)",
            Some("150"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,int64)",
            Some("150"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,uint32)",
            Some("150"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,uint64)",
            Some("150"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,sint32)",
            Some("75"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,sint64)",
            Some("75"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,bool)",
            Some("150"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,enum)",
            Some("150"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,fixed32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5),hex",
            Some("FDFFFFFFFFFFFFFFFF01"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,int32)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,int64)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,uint32)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,uint64)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,sint32)",
            Some("-9223372036854775807"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,sint64)",
            Some("-9223372036854775807"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,bool)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,enum)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,fixed32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(5,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6),hex",
            Some("05"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,int32)",
            Some("5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,int64)",
            Some("5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,uint32)",
            Some("5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,uint64)",
            Some("5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,sint32)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,sint64)",
            Some("-3"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,bool)",
            Some("5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,enum)",
            Some("5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,fixed32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(6,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7),hex",
            Some("01"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,int32)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,int64)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,uint32)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,uint64)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,sint32)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,sint64)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,bool)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,enum)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,fixed32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(7,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10),hex",
            Some("808080808020"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,int32)",
            Some("1099511627776"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,int64)",
            Some("1099511627776"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,uint32)",
            Some("1099511627776"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,uint64)",
            Some("1099511627776"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,sint32)",
            Some("549755813888"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,sint64)",
            Some("549755813888"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,bool)",
            Some("1099511627776"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,enum)",
            Some("1099511627776"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,fixed32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(10,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11),hex",
            Some("FFFFFFFFFFFFFFFFFF01"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,int32)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,int64)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,uint32)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,uint64)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,sint32)",
            Some("-9223372036854775808"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,sint64)",
            Some("-9223372036854775808"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,bool)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,enum)",
            Some("-1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,fixed32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(11,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3),hex",
            Some("0000C03F"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,fixed32)",
            Some("1069547520"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,sfixed32)",
            Some("1069547520"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,float)",
            Some("1"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,int32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(3,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8),hex",
            Some("FEFFFFFF"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,fixed32)",
            Some("4294967294"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,sfixed32)",
            Some("-2"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,float)",
            Some("0"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,int32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(8,double)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4),hex",
            Some("0000000000000440"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,fixed64)",
            Some("4612811918334230528"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,sfixed64)",
            Some("4612811918334230528"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,double)",
            Some("2"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,int64)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(4,float)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9),hex",
            Some("FBFFFFFFFFFFFFFF"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,fixed64)",
            Some("-5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,sfixed64)",
            Some("-5"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,double)",
            Some("-9223372036854775808"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,int64)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(9,float)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(2)",
            Some("hello"),
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(2,int32)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(12)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(0)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(1.2)",
            None,
        ),
        (
            "bin(089601120568656c6c6f1d0000c03f21000000000000044028fdffffffffffffffff013005380145feffffff49fbffffffffffffff5080808080802058ffffffffffffffffff01),protobuf(99999999999)",
            None,
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
            Some("407838351"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.2,int32)",
            Some("-746143763"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(49.59.1,int32)",
            Some("408122808"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(49.59.2,int32)",
            Some("-743999179"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59),hex",
            Some("088FBDBCC20110EDFF9A9CFDFFFFFFFF01"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59),protobuf(1,int32)",
            Some("407838351"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48),protobuf(59.1,int32)",
            Some("407838351"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48),protobuf(59),protobuf(1,int32)",
            Some("407838351"),
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(50)",
            None,
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.60)",
            None,
        ),
        (
            "bin(000000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.3)",
            None,
        ),
        (
            "bin(010000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(1)",
            None,
        ),
        (
            "bin(010000002e820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
            Some("407838351"),
        ),
        ("bin(000000002e820314da031108),ungrpc(48.59.1,int32)", None),
        (
            "bin(0000000005820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
            None,
        ),
        (
            "bin(00000000ff820314da0311088fbdbcc20110edff9a9cfdffffffff018a0314da031108b8ebcdc20110b5f29d9dfdffffffff01),ungrpc(48.59.1,int32)",
            None,
        ),
        (
            "bin(0000000002080500000000020806),ungrpc(1,int32)",
            Some("5"),
        ),
        (
            "bin(0000000002080500000000021006),ungrpc(2,int32)",
            Some("6"),
        ),
        ("bin(00000000),ungrpc(1)", None),
        ("str(),ungrpc(1)", None),
        ("str(),protobuf(1)", None),
        ("bin(08),protobuf(1,int32)", Some("0")),
        ("bin(0880),protobuf(1,int32)", None),
        ("bin(088080808080808080808001),protobuf(1,int64)", None),
        ("bin(08ffffffffffffffffff01),protobuf(1,int64)", Some("-1")),
        ("bin(0aff01),protobuf(1)", None),
        ("bin(0a0568656c6c),protobuf(1)", None),
        ("bin(0a03616263),protobuf(1)", Some("abc")),
        ("bin(0a00),protobuf(1)", Some("")),
        ("bin(0b080108010c),protobuf(1)", None),
        ("bin(0f),protobuf(1)", None),
        ("bin(0d0102),protobuf(1,fixed32)", None),
        ("bin(0b0c1001),protobuf(2,int32)", None),
        ("bin(0f1001),protobuf(2,int32)", None),
        ("bin(08011002),protobuf(2,int32)", Some("2")),
        ("bin(08010802),protobuf(1,int32)", Some("1")),
        ("bin(1201610a0162),protobuf(1)", Some("b")),
        ("bin(0a0210050a020807),protobuf(1.1,int32)", Some("7")),
        ("bin(0a0210050807),protobuf(1.1,int32)", None),
        ("bin(0a040a020803),protobuf(1.1,int32)", None),
        ("bin(1d0000e0bf),protobuf(3,float)", Some("4294967295")),
        (
            "bin(199c7500883ce437fe),protobuf(3,double)",
            Some("-9223372036854775808"),
        ),
        ("bin(188580808010),protobuf(3,int32)", Some("4294967301")),
        ("bin(188580808010),protobuf(3,uint32)", Some("4294967301")),
        ("bin(188580808020),protobuf(3,sint32)", Some("-4294967299")),
        ("bin(1802),protobuf(3,bool)", Some("2")),
        ("bin(18feffffffffffffffff01),protobuf(3,enum)", Some("-2")),
        ("bin(188080808008),protobuf(3,int32)", Some("2147483648")),
        ("bin(089601),protobuf(1,int32),concat(x)", Some("150x")),
        ("bin(08),protobuf(1),hex,length", Some("0")),
        ("bin(0801),protobuf(1,int32),hex", Some("0000000000000001")),
        ("bin(1d0000c04f),protobuf(3,float)", Some("2147483648")),
        ("bin(1d000080ff),protobuf(3,float)", Some("0")),
        ("bin(19000000000000f07f),protobuf(3,double)", Some("0")),
        ("bin(190000000000000440),protobuf(3,double)", Some("2")),
        ("bin(08011a0161),protobuf(3,int32)", None),
        (
            "bin(08011d010000001a0161),protobuf(3)",
            Some("\x01\x00\x00\x00"),
        ),
        ("bin(1d010000001801),protobuf(3,int32)", None),
    ]);
}

#[test]
fn bad_arguments_are_refused() {
    check_refused(&[
        ("bin(0801),protobuf(-1)", "field number"),
        ("bin(0801),protobuf(1.)", "field number"),
        ("bin(0801),protobuf(x)", "field number"),
        ("bin(0801),protobuf()", "argument"),
        ("bin(0801),protobuf(1,string)", "field type"),
        ("bin(0801),ungrpc(1,foo)", "field type"),
    ]);
    // HAProxy takes these, and they never match.
    for path in [".1", "1..2"] {
        assert!(
            World::new(b"")
                .run(&format!("bin(0801),protobuf({path})"))
                .is_err()
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_may_be_searched(bytes: Vec<u8>, path in "[0-9]{1,2}(\\.[0-9]){0,3}") {
        let world = World::new(&bytes);
        let _ = world.run(&format!("hdr,protobuf({path})")).unwrap();
        let _ = world.run(&format!("hdr,ungrpc({path},int64)")).unwrap();
    }
}
