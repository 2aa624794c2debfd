//! MACs computed with another implementation of HMAC (Python's `hmac`) over octets put together by hand from
//! RFC 8945 section 4.3: those of the query, of three messages that are all signed, and of the third where the
//! second is not signed. Time 1,700,000,000 and one second more for each message, fudge 300, the key
//! `key.example.` with [`SECRET`].

/// The secret of all of them.
pub(super) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// The algorithm as operators write it, and the MACs.
pub(super) const MACS: [(&str, [&str; 5]); 8] = [
    (
        "hmac-md5",
        [
            "4d91470bda5cb3e4b180b1177f0f495a",
            "70f0715aa988c546440115ac0ccfe590",
            "ec6124c69bf6380e170425fec23673da",
            "9f2973682b87842d1f2a154e0e08989d",
            "586e0ec5033b48faf47cd962efcb09dd",
        ],
    ),
    (
        "hmac-sha1",
        [
            "3968fd32f38b4c23720975ed8f9753bc53590169",
            "61cbe9a008b5e07ed6c20ebb40a14029fe33bcab",
            "12444122339c24dec6abc37ec37259d1010cb563",
            "77dfdd66e3bc4043aa903188a2a4d25f70f7445f",
            "5e44d05eeb067e22428eeb2c8bf9ddff50c84b94",
        ],
    ),
    (
        "hmac-sha224",
        [
            "eac32fc665f9a36c24f54f4df0577fea762778b40006efaa57c91641",
            "b5b9d4d5951652fffbe9c3147573e218df453d11383dc03250d019d8",
            "132068ff727f7d9d15ed1aeb4ae08a3a837c64691f410f3aa59dd389",
            "fc38bd22bf42a4d61f2ec2f10e8ffff92157f48bee459c498c35a022",
            "d59f17306e2e891aab19427a9252e19a94bb97f812aa24a3305ad232",
        ],
    ),
    (
        "hmac-sha256",
        [
            "8fc913fa7029f598e37dbf21d823bc4010bfe5d6fa6ccabf2f5398e093337672",
            "67bd8b49c7659192d24137f4ace13852d6cd8582f50da1ccf2e62d4c780aeb47",
            "be166cccad5d0ca1bede60b44eb71bc538f64b005c8e90286e4da78fb7d81970",
            "88dbeae75978255713e5e90e8c8887619e53d5ab180e72213ace508c739bc65a",
            "6e0eaab6421d15ac03ce286cda5ecdbc37529411e36f061dcb0869bc5cb05c91",
        ],
    ),
    (
        "hmac-sha384",
        [
            "676f66320d773b61774b70a6cf84245fdc82949bf495ae10c605cc6d831127d6cecbcea0249332cfdd0e4eb15f3420d0",
            "93a0a9b0e6a2af8d34575d184cf4e077fb50b7166052ec8ba27d78e96af8d8ac3d105381463a64ae0d56fced73292b08",
            "6440ea0d51169b8d346006aaaff38e0b828e431eeb9021632fddabcae16a81cd77b5011a55f895beed296377d9ef18bf",
            "4f6b46fed333129da45502546aa9576a5ce4fd6faff833e989807701069d21e72e167bdb7f56a69c87bd6384fc1fd126",
            "5d9be4f4a5e871728298e7cc069860ca8d1d0c0e3d0ae6d6a92c180ad21f153ac92e6fb27b17877c9a5623e9ea917be0",
        ],
    ),
    (
        "hmac-sha512",
        [
            "0e052c12ebf5f84a8857112eb01f9c5a5fc7acc8846f353981f12af4e68d8132b068df24dfd085a78848bae10924658720efce2704f5f966dd9ac823e373a3fe",
            "1b39fdb7be6d055135e5f80939495ed8b49baad38f3fb27c46a99bf85daf030e675054400c40fdb449341d16f310d4bf8b513faf55b40a1a21451c3a619fd11b",
            "8b1bef2916b7607b494ad3e906a8806d544ef4bb85d7cc4ffb52f70b6a087a777a78acdb4eacc2779392d6468eb70dce5d74c62a92db480de101f72000462bb5",
            "703e092508b5269424af1b9ab0db0f61e8f9d7f4ee7299a0464e949da95e1f57310de8be4dddefcaf480ce536b41f91839426b20075751eb1848ebdf3883dd86",
            "188eab0fb2d14347ecfb8bebe04a5dd28acc83241d69bb3b3a85a655fd50077c9493e94124dbf390969240298009a064909a851b82e07b599d7d4ab65e55709b",
        ],
    ),
    (
        "hmac-sha256-128",
        [
            "8fc913fa7029f598e37dbf21d823bc40",
            "0ded26e4a034a1c3a3260a2e5fead946",
            "e36d857b598f422a60ca6e8cdfdd97a0",
            "088d982c05605a917a4842d3ced8e431",
            "152cb8b46e2a495c68e4e7add209a333",
        ],
    ),
    (
        "hmac-sha1-80",
        [
            "3968fd32f38b4c237209",
            "e5ba4ea4a108764c59b5",
            "c4491f9b39a6eb1a8bc7",
            "5da5edcbffff5e1667f8",
            "d49b8d4a44a8194b075c",
        ],
    ),
];

/// Of a response with BADTIME to the query of hmac-sha256, at 301 s past its time.
pub(super) const BADTIME: &str = "882557b1acb8558a837f5f810648fb8bf77b00ae98eab72b8d2b95e6235b8304";
