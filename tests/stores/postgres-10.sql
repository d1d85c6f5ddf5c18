SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA stored;
CREATE FUNCTION stored.trigrams(value text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT COST 10000 PARALLEL SAFE
    AS $$ SELECT ARRAY(SELECT substr(value, at, 3) FROM generate_series(1, length(value) - 2) AS at) $$;
CREATE TABLE stored.api_tokens (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    tenant text,
    role text NOT NULL,
    name text NOT NULL,
    created bigint NOT NULL,
    revoked bigint
);
ALTER TABLE stored.api_tokens ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.api_tokens_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.calls (
    tenant bigint NOT NULL,
    id bytea NOT NULL,
    request bytea NOT NULL,
    answer bytea NOT NULL,
    made bigint NOT NULL
);
CREATE TABLE stored.chunk_journals (
    job bigint NOT NULL,
    ordinal bigint NOT NULL,
    first bigint NOT NULL,
    counts bytea NOT NULL,
    file bigint NOT NULL,
    file_start bigint NOT NULL,
    lines bytea NOT NULL
);
CREATE TABLE stored.chunks (
    job bigint NOT NULL,
    ordinal bigint NOT NULL,
    state text NOT NULL,
    token bigint NOT NULL,
    until bigint NOT NULL,
    attempts bigint NOT NULL,
    reason text,
    file bigint NOT NULL,
    "position" bigint NOT NULL,
    length bigint NOT NULL,
    file_documents bigint NOT NULL,
    documents_before bigint NOT NULL,
    documents bigint NOT NULL,
    is_last boolean NOT NULL,
    head bytea NOT NULL,
    payload bytea
);
CREATE SEQUENCE stored.clock
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE stored.corrections (
    job bigint NOT NULL,
    document bigint NOT NULL,
    collection text NOT NULL,
    outcome bigint NOT NULL
);
CREATE TABLE stored.edges (
    tenant bigint NOT NULL,
    link bigint NOT NULL,
    target text NOT NULL COLLATE pg_catalog."C",
    grp text NOT NULL COLLATE pg_catalog."C",
    start bigint NOT NULL,
    child text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL
);
CREATE TABLE stored.failed_documents (
    job bigint NOT NULL,
    document bigint NOT NULL,
    bytes bytea NOT NULL
);
CREATE TABLE stored.former (
    tenant bigint NOT NULL,
    collection text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    contributor text NOT NULL COLLATE pg_catalog."C",
    identity bytea NOT NULL,
    packed bytea NOT NULL,
    raw bytea
);
CREATE TABLE stored.generations (
    id bigint NOT NULL,
    hash bytea NOT NULL
);
ALTER TABLE stored.generations ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.generations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.i_book_words (
    tenant bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    value text COLLATE pg_catalog."C"
);
CREATE TABLE stored.jobs (
    id bigint NOT NULL,
    tenant bigint NOT NULL,
    profile text,
    source text NOT NULL,
    as_of bigint,
    files text NOT NULL,
    state text NOT NULL,
    reason text,
    created bigint NOT NULL,
    finished bigint,
    progress text NOT NULL,
    due bigint NOT NULL
);
ALTER TABLE stored.jobs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.marks (
    id bigint NOT NULL,
    tenant bigint NOT NULL,
    lane bigint NOT NULL,
    stratum bigint NOT NULL,
    rule bigint NOT NULL,
    target text NOT NULL COLLATE pg_catalog."C",
    part text NOT NULL COLLATE pg_catalog."C",
    job bigint NOT NULL
);
ALTER TABLE stored.marks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.marks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.meta (
    name text NOT NULL,
    value text
);
CREATE TABLE stored.r_book (
    tenant bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    touch bigint NOT NULL,
    created_job bigint NOT NULL,
    alive boolean NOT NULL,
    f_id text COLLATE pg_catalog."C",
    f_title text COLLATE pg_catalog."C",
    f_shelfmark text COLLATE pg_catalog."C",
    f_tagged text COLLATE pg_catalog."C",
    f_words text[] COLLATE pg_catalog."C",
    f_price bigint,
    f_room_id text COLLATE pg_catalog."C",
    f_room text COLLATE pg_catalog."C",
    x_title text COLLATE pg_catalog."C",
    w_title text COLLATE pg_catalog."C",
    s_status text COLLATE pg_catalog."C",
    conflict text[],
    state text,
    contributions bytea NOT NULL,
    raw bytea
);
ALTER TABLE ONLY stored.r_book ALTER COLUMN f_words SET STATISTICS 0;
ALTER TABLE ONLY stored.r_book ALTER COLUMN state SET STATISTICS 0;
ALTER TABLE ONLY stored.r_book ALTER COLUMN contributions SET STATISTICS 0;
ALTER TABLE ONLY stored.r_book ALTER COLUMN raw SET STATISTICS 0;
CREATE TABLE stored.r_room (
    tenant bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    touch bigint NOT NULL,
    created_job bigint NOT NULL,
    alive boolean NOT NULL,
    f_id text COLLATE pg_catalog."C",
    f_area bytea,
    f_books bigint,
    b_area box,
    conflict text[],
    state text,
    contributions bytea NOT NULL,
    raw bytea
)
WITH (fillfactor='60');
ALTER TABLE ONLY stored.r_room ALTER COLUMN state SET STATISTICS 0;
ALTER TABLE ONLY stored.r_room ALTER COLUMN contributions SET STATISTICS 0;
ALTER TABLE ONLY stored.r_room ALTER COLUMN raw SET STATISTICS 0;
CREATE TABLE stored.record_log (
    id bigint NOT NULL,
    tenant bigint NOT NULL,
    collection text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    transition text,
    caller text NOT NULL,
    change text NOT NULL
);
ALTER TABLE stored.record_log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.record_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.tag_stamps (
    tenant bigint NOT NULL,
    stamp bigint NOT NULL
);
CREATE TABLE stored.tagged (
    tenant bigint NOT NULL,
    collection bigint NOT NULL,
    value text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE stored.tags (
    tenant bigint NOT NULL,
    collection bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    definition text NOT NULL,
    comment text NOT NULL,
    attributes text NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    generation bigint NOT NULL,
    job bigint NOT NULL
);
CREATE TABLE stored.tenants (
    id bigint NOT NULL,
    name text NOT NULL,
    given bigint DEFAULT 0 NOT NULL
);
ALTER TABLE stored.tenants ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.tenants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE stored.tokens
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE stored.trees (
    tenant bigint NOT NULL,
    collection bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    tree bytea NOT NULL
);
ALTER TABLE ONLY stored.trees ALTER COLUMN tree SET STORAGE EXTERNAL;
CREATE TABLE stored.troubles (
    id bigint NOT NULL,
    job bigint NOT NULL,
    document bigint NOT NULL,
    file bigint NOT NULL,
    record bigint NOT NULL,
    "position" bigint NOT NULL,
    key text,
    failed boolean NOT NULL,
    reason text NOT NULL
);
ALTER TABLE stored.troubles ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.troubles_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.u_book_shelfmark (
    tenant bigint NOT NULL,
    digest bytea NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C"
);
INSERT INTO stored.api_tokens OVERRIDING SYSTEM VALUE VALUES (1, '\x0b39daab757f6cb6032a6461b43c4ef39cf945817ad385a9b3b9449c0ec4c7db', 'main', 'read', 'reports', 1795867396358261, NULL);
INSERT INTO stored.api_tokens OVERRIDING SYSTEM VALUE VALUES (2, '\x83e4cf574d59291979502867194612ebdcef117f3070dc4e8cfa467bdc578217', 'main', 'write', 'desk', 1795867396674162, NULL);
INSERT INTO stored.api_tokens OVERRIDING SYSTEM VALUE VALUES (3, '\xf76bfc8e0c4d22688db9db8deb91955778ea273ec07c87cce6c71e8ce06371dc', 'main', 'admin', 'gone', 1795867396836135, 1795867396984100);
INSERT INTO stored.chunk_journals VALUES (1, 1, 1, '\x06000000000000060000', 0, 0, '\x000301080000027230010e000002723101280000027232');
INSERT INTO stored.chunk_journals VALUES (2, 1, 1, '\x18000000000000180000', 0, 0, '\x000c0119000103623030011d000103623031011d000103623032011d000103623033011d000103623034011d000103623035011d000103623036011d000103623037011d000103623038011d000103623039011d000103623130011e000103623131');
INSERT INTO stored.chunk_journals VALUES (3, 1, 1, '\x02060000000000080200', 0, 0, '\x00040109010103623031010601010362303201060101036230330109000103623939');
INSERT INTO stored.chunk_journals VALUES (4, 1, 1, '\x02020000000002060000', 0, 0, '\x00030119010103623031011f00010362323001140601027831');
INSERT INTO stored.chunks VALUES (5, 1, 'waiting', 0, 0, 0, NULL, 0, 25, 130, 0, 0, 5, true, '\x69642c7469746c652c6d61726b2c776f7264732c726f6f6d', NULL);
INSERT INTO stored.edges VALUES (1, 387107308, 'r0', '', 0, 'b00', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r0', '', 0, 'b03', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r0', '', 0, 'b06', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r0', '', 0, 'b09', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r1', '', 0, 'b04', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r1', '', 0, 'b07', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r1', '', 0, 'b10', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r2', '', 0, 'b02', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r2', '', 0, 'b05', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r2', '', 0, 'b08', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r2', '', 0, 'b11', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r0', '', 0, 'b20', '\x0100');
INSERT INTO stored.edges VALUES (1, 387107308, 'r2', '', 0, 'b01', '\x0100');
INSERT INTO stored.failed_documents VALUES (4, 3, '\x69642c7469746c652c6d61726b2c776f7264732c726f6f6d0a78312c53616d65206d61726b2c6d322c616c6c2c7230');
INSERT INTO stored.former VALUES (1, 'book', 'b01', 'shelf', '\x21478037c5494191d03752d91e0c8d87', '\x05010400057368656c660223c7f554610600f299f090e235d0fc3a20b7d6d7130422010202061cda1cda14050269640403623031057469746c65040b5469746c65203120c38964097368656c666d61726b04026d31067461676765640406773120616c6c07726f6f6d5f6964040272310015ca6e17bb3b891c7edf6c9d', '\x6230312c5469746c65203120c389642c6d312c773120616c6c2c7231');
INSERT INTO stored.generations OVERRIDING SYSTEM VALUE VALUES (1, '\x1104c71f60ae222331063cbc1a55a00e');
INSERT INTO stored.generations OVERRIDING SYSTEM VALUE VALUES (2, '\xf13ee46f04f6633480c8f8d25e4c9122');
INSERT INTO stored.generations OVERRIDING SYSTEM VALUE VALUES (3, '\x718b14a86792638b9726f43550363758');
INSERT INTO stored.i_book_words VALUES (1, 'b00', 'w0');
INSERT INTO stored.i_book_words VALUES (1, 'b00', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b04', 'w1');
INSERT INTO stored.i_book_words VALUES (1, 'b04', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b05', 'w2');
INSERT INTO stored.i_book_words VALUES (1, 'b05', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b06', 'w0');
INSERT INTO stored.i_book_words VALUES (1, 'b06', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b07', 'w1');
INSERT INTO stored.i_book_words VALUES (1, 'b07', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b08', 'w2');
INSERT INTO stored.i_book_words VALUES (1, 'b08', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b09', 'w0');
INSERT INTO stored.i_book_words VALUES (1, 'b09', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b10', 'w1');
INSERT INTO stored.i_book_words VALUES (1, 'b10', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b11', 'w2');
INSERT INTO stored.i_book_words VALUES (1, 'b11', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b02', 'w2');
INSERT INTO stored.i_book_words VALUES (1, 'b02', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b03', 'w0');
INSERT INTO stored.i_book_words VALUES (1, 'b03', 'all');
INSERT INTO stored.i_book_words VALUES (1, 'b01', 'w1');
INSERT INTO stored.i_book_words VALUES (1, 'b01', 'new');
INSERT INTO stored.jobs OVERRIDING SYSTEM VALUE VALUES (1, 1, NULL, 'rooms', NULL, '[{"path":"/deliveries/rooms.csv","size":66,"modified":1795867386822561,"syntax":"csv","compressed":false}]', 'completed', NULL, 1795867387236776, 1795867387864728, '{"file":1,"offset":0,"file_documents":0,"documents":3,"chunks":1,"complete":true}', 1795867387236838);
INSERT INTO stored.jobs OVERRIDING SYSTEM VALUE VALUES (2, 1, NULL, 'shelf', NULL, '[{"path":"/deliveries/first.csv","size":375,"modified":1795867388879618,"syntax":"csv","compressed":false}]', 'completed', NULL, 1795867389160882, 1795867390287321, '{"file":1,"offset":0,"file_documents":0,"documents":12,"chunks":1,"complete":true}', 1795867389161239);
INSERT INTO stored.jobs OVERRIDING SYSTEM VALUE VALUES (3, 1, NULL, 'prices', NULL, '[{"path":"/deliveries/prices.csv","size":36,"modified":1795867391343453,"syntax":"csv","compressed":false}]', 'completed', NULL, 1795867391653011, 1795867392773515, '{"file":1,"offset":0,"file_documents":0,"documents":4,"chunks":1,"complete":true}', 1795867391653045);
INSERT INTO stored.jobs OVERRIDING SYSTEM VALUE VALUES (4, 1, NULL, 'shelf', NULL, '[{"path":"/deliveries/second.csv","size":99,"modified":1795867392988872,"syntax":"csv","compressed":false}]', 'completed_with_errors', NULL, 1795867393272729, 1795867394134888, '{"file":1,"offset":0,"file_documents":0,"documents":3,"chunks":1,"complete":true}', 1795867393272823);
INSERT INTO stored.jobs OVERRIDING SYSTEM VALUE VALUES (5, 1, NULL, 'shelf', NULL, '[{"path":"/deliveries/waiting.csv","size":155,"modified":1795867398963586,"syntax":"csv","compressed":false}]', 'queued', NULL, 1795867399153732, NULL, '{"file":1,"offset":0,"file_documents":0,"documents":5,"chunks":1,"complete":true}', 1795867399153879);
INSERT INTO stored.meta VALUES ('format', '10');
INSERT INTO stored.meta VALUES ('shape', '{"collections":{"book":{"key":"id","exists":"Latest","published":false,"fields":{"id":{"ty":"text","rule":"Latest None None false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false},"price":{"ty":"integer","rule":"Latest None None true","fold":false,"unique":false,"ordered":true,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false},"room":{"ty":"text","rule":"Latest None Some(\"None Template { parts: [Name(\\\"room_id\\\")] }\") false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":false,"words":false,"linked":false,"settled":true},"room_id":{"ty":"text","rule":"Latest None None false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false},"shelfmark":{"ty":"text","rule":"Latest None None false","fold":false,"unique":true,"ordered":true,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false},"tagged":{"ty":"text","rule":"Latest None None false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false},"title":{"ty":"text","rule":"Latest None None false","fold":true,"unique":false,"ordered":true,"contains":true,"intersects":false,"words":true,"linked":false,"settled":false},"words":{"ty":"[text]","rule":"Latest None Some(\"split(tagged, '' '')\") false","fold":false,"unique":false,"ordered":true,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false}},"states":{"status":{"ty":"text","rule":"","fold":false,"unique":false,"ordered":true,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false}}},"room":{"key":"id","exists":"Latest","published":false,"fields":{"area":{"ty":"geometry","rule":"Latest None None false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":true,"words":false,"linked":false,"settled":false},"books":{"ty":"integer","rule":"Latest None Some(\"settled\") false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":false,"words":false,"linked":false,"settled":true},"id":{"ty":"text","rule":"Latest None None false","fold":false,"unique":false,"ordered":false,"contains":false,"intersects":false,"words":false,"linked":false,"settled":false}},"states":{}}}}');
INSERT INTO stored.meta VALUES ('definition', 'f426d6773fd14deea978fef2532c50c823874867557d94f361780b77afed97bb');
INSERT INTO stored.meta VALUES ('collections', '["room","book"]');
INSERT INTO stored.meta VALUES ('settled', '018ec691bd5d4c3feb6a0a0ab874eb9358763686c39624dcedb3bcb64f859beb');
INSERT INTO stored.meta VALUES ('undo shelf', '1');
INSERT INTO stored.r_book VALUES (1, 'b00', 1795867390084890, 0, 2, true, 'b00', 'Title 0 Éd', 'm0', 'w0 all', '{w0,all}', NULL, 'r0', 'r0', 'title 0 éd', ' title  0  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f554610600d8cdb17dc2dc20a0823859a30f9310e2010201061c64e3b666004c00b06dbb3b891c9e30f24c', '\x6230302c5469746c65203020c389642c6d302c773020616c6c2c7230');
INSERT INTO stored.r_book VALUES (1, 'b05', 1795867390084890, 0, 2, true, 'b05', 'Title 0 Éd', 'm5', 'w2 all', '{w2,all}', NULL, 'r2', 'r2', 'title 0 éd', ' title  0  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f554610600f260b37f56b4cdb9d78d49b82b1650df010206061c3e19437600da8b8293bb3b891c6eae2e08', '\x6230352c5469746c65203020c389642c6d352c773220616c6c2c7232');
INSERT INTO stored.r_book VALUES (1, 'b06', 1795867390084890, 0, 2, true, 'b06', 'Title 1 Éd', 'm6', 'w0 all', '{w0,all}', NULL, 'r0', 'r0', 'title 1 éd', ' title  1  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f554610600e4c4aa10530753be6288e217b94a06d6010207061c77428f5e009730128abb3b891c2ddaac61', '\x6230362c5469746c65203120c389642c6d362c773020616c6c2c7230');
INSERT INTO stored.r_book VALUES (1, 'b07', 1795867390084890, 0, 2, true, 'b07', 'Title 2 Éd', 'm7', 'w1 all', '{w1,all}', NULL, 'r1', 'r1', 'title 2 éd', ' title  2  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f5546106007c3ef7590617c7463bad0bd64077798b010208061c4ad637290052ce1d9dbb3b891c10135a17', '\x6230372c5469746c65203220c389642c6d372c773120616c6c2c7231');
INSERT INTO stored.r_book VALUES (1, 'b08', 1795867390084890, 0, 2, true, 'b08', 'Title 3 Éd', 'm8', 'w2 all', '{w2,all}', NULL, 'r2', 'r2', 'title 3 éd', ' title  3  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f554610600c10258dc1cf81d1b87683288d0c1b19a010209061cae94f1cf0058faf9d5bb3b891c1bffd360', '\x6230382c5469746c65203320c389642c6d382c773220616c6c2c7232');
INSERT INTO stored.r_book VALUES (1, 'b09', 1795867390084890, 0, 2, true, 'b09', 'Title 4 Éd', 'm9', 'w0 all', '{w0,all}', NULL, 'r0', 'r0', 'title 4 éd', ' title  4  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f55461060064df700d95dc360c1673da458984063b01020a061ccc8167a400b11c479bbb3b891cb2c01ab6', '\x6230392c5469746c65203420c389642c6d392c773020616c6c2c7230');
INSERT INTO stored.r_book VALUES (1, 'b10', 1795867390084890, 0, 2, true, 'b10', 'Title 0 Éd', 'm10', 'w1 all', '{w1,all}', NULL, 'r1', 'r1', 'title 0 éd', ' title  0  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f5546106000479074774393e44b45c8087f4301f5f01020b061dbc2214dd00e7622f8bbb3b891c507217fd', '\x6231302c5469746c65203020c389642c6d31302c773120616c6c2c7231');
INSERT INTO stored.r_book VALUES (1, 'b11', 1795867390084890, 0, 2, true, 'b11', 'Title 1 Éd', 'm11', 'w2 all', '{w2,all}', NULL, 'r2', 'r2', 'title 1 éd', ' title  1  ed ', 'free', NULL, NULL, '\x05010600057368656c660223c7f554610600ef309be0bb4d71f1705d648957995abb01020c061d3c3072b2000df9d1f8bb3b891ccbf0f840', '\x6231312c5469746c65203120c389642c6d31312c773220616c6c2c7232');
INSERT INTO stored.r_book VALUES (1, 'b02', 1795867392587883, 0, 2, true, 'b02', 'Title 2 Éd', 'm2', 'w2 all', '{w2,all}', 8, 'r2', 'r2', 'title 2 éd', ' title  2  ed ', 'free', NULL, NULL, '\x05020400067072696365735dbbecf554610600ea06df4c7b5c42b74868b1623dd2868f02030206055fc927e3020269640403623032057072696365020800000000000000004ce0f1638400057368656c660223c7f55461060040232b80fecf500cc845b703d3775682010203061c181c6f82010570726963650000ede581d4bb3b891cec8b8e8d', '\x6230322c386230322c5469746c65203220c389642c6d322c773220616c6c2c7232');
INSERT INTO stored.r_book VALUES (1, 'b03', 1795867392587883, 0, 2, true, 'b03', 'Title 3 Éd', 'm3', 'w0 all', '{w0,all}', NULL, 'r0', 'r0', 'title 3 éd', ' title  3  ed ', 'free', NULL, NULL, '\x05020400067072696365735dbbecf554610600e6a073a3f19c378e9b15a452a06752900203030608836bae8b010269640403623033010570726963650000000000000080000000000000000000000000000000000000649eb91a0600057368656c660223c7f5546106008b86667a657b4471026e8e24345196e5010204061cffb585e70079638ed8bb3b891cabbc331a', '\x6230332c6d616e796230332c5469746c65203320c389642c6d332c773020616c6c2c7230');
INSERT INTO stored.r_book VALUES (1, 'b99', 1795867392587883, 0, 3, true, 'b99', NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, 'free', NULL, NULL, '\x05010600067072696365735dbbecf554610600d5a9571332d0b1fa716303d89c64b9b8020304060590d1a6eb0002e39e76bb3b891cdbe707fb', '\x6239392c31');
INSERT INTO stored.r_book VALUES (1, 'b01', 1795867393988252, 0, 2, true, 'b01', 'Another title', 'm1', 'w1 new', '{w1,new}', 7, 'r2', 'r2', 'another title', ' another  title ', 'free', NULL, NULL, '\x05020400067072696365735dbbecf5546106007d740ec36a4dce71ed64b61765f78d120203010605976ade71020269640403623031057072696365020700000000000000000e20356b8c02057368656c66c8d605f654610600a3f1063bdbf1b1c7606215b5772b4a5b0104010223c7f554610600f299f090e235d0fc3a20b7d6d7130422010202061efcc30912010570726963650000af6b3758bb3b891c368945d9', '\x6230312c376230312c416e6f74686572207469746c652c6d312c7731206e65772c7232');
INSERT INTO stored.r_book VALUES (1, 'b20', 1795867393988252, 0, 4, true, 'b20', 'New one', 'm20', NULL, NULL, NULL, 'r0', 'r0', 'new one', ' new  one ', 'free', NULL, NULL, '\x05010600057368656c66c8d605f654610600fd9c2edb596fa172e00e73cbcd640c96010402061343a8109c00f62f2197bb3b891c48dbc0ca', '\x6232302c4e6577206f6e652c6d32302c2c7230');
INSERT INTO stored.r_book VALUES (1, 'b04', 1795867398832984, 0, 2, true, 'b04', 'Title 4 Éd', 'm4', 'w1 all', '{w1,all}', NULL, 'r1', 'r1', 'title 4 éd', ' title  4  ed ', 'lent', NULL, '{"status":"lent"}', '\x05010600057368656c660223c7f554610600dc1891432d176dd77f4ee42c815c2399010205061c36e1fe4c00280640e7bb3b891c1a4ca3ac', '\x6230342c5469746c65203420c389642c6d342c773120616c6c2c7231');
INSERT INTO stored.r_room VALUES (1, 'r0', 1795867387785668, 3, 1, true, 'r0', '\x010180ade20480dac4090000', 5, '(1,2),(1,2)', NULL, NULL, '\x0501020005726f6f6d73a1bfa7f554610600f3122eb5406316a44266f26a65403035030101001c391f7b364c23be783176af', NULL);
INSERT INTO stored.r_room VALUES (1, 'r1', 1795867387785668, 3, 1, true, 'r1', '\x010000010004000080b48913000080b48913ffb3891300', 3, '(4,4),(0,0)', NULL, NULL, '\x0501020005726f6f6d73a1bfa7f554610600664daee7d59fa533c7cd1cee00e403fd03010200bbdaa365364c23befab9d8f7', NULL);
INSERT INTO stored.r_room VALUES (1, 'r2', 1795867387785668, 3, 1, true, 'r2', NULL, 5, NULL, NULL, NULL, '\x0501020005726f6f6d73a1bfa7f55461060087eff14aad91bfed8b055ae8c22aa6d9030103000642c2c0364c23be1971ae23', NULL);
INSERT INTO stored.record_log OVERRIDING SYSTEM VALUE VALUES (1, 1, 'book', 'b01', 1795867392587883, NULL, 'job 3', '{"before":{"price":null},"after":{"price":7}}');
INSERT INTO stored.record_log OVERRIDING SYSTEM VALUE VALUES (2, 1, 'book', 'b02', 1795867392587883, NULL, 'job 3', '{"before":{"price":null},"after":{"price":8}}');
INSERT INTO stored.record_log OVERRIDING SYSTEM VALUE VALUES (3, 1, 'book', 'b01', 1795867393988252, NULL, 'job 4', '{"before":{"title":"Title 1 Éd","tagged":"w1 all","words":["w1","all"],"room_id":"r1","room":"r1"},"after":{"title":"Another title","tagged":"w1 new","words":["w1","new"],"room_id":"r2","room":"r2"}}');
INSERT INTO stored.record_log OVERRIDING SYSTEM VALUE VALUES (4, 1, 'book', 'b04', 1795867398832984, 'lend', 'desk', '{"args":{},"before":{"status":"free"},"after":{"status":"lent"}}');
INSERT INTO stored.tag_stamps VALUES (1, 1795867396072758);
INSERT INTO stored.tagged VALUES (1, 995041784, 'shown', 'b01');
INSERT INTO stored.tagged VALUES (1, 995041784, 'shown', 'b02');
INSERT INTO stored.tags VALUES (1, 995041784, 'shown', 'manual', '', 'in the window', '{}', 1795867395176335, 1795867395176335, 1795867395176335, 0);
INSERT INTO stored.tags VALUES (1, 995041784, 'cheap', 'query', 'price<8', '', '{}', 1795867396064622, 1795867396064622, 1795867396064622, 0);
INSERT INTO stored.tenants OVERRIDING SYSTEM VALUE VALUES (1, 'main', 22000);
INSERT INTO stored.troubles OVERRIDING SYSTEM VALUE VALUES (1, 3, 3, 0, 3, 21, 'b03', false, 'price: "many" is not an integer; it is ignored');
INSERT INTO stored.troubles OVERRIDING SYSTEM VALUE VALUES (2, 4, 3, 0, 3, 76, 'x1', true, '`shelfmark` must be unique, but record "b02" already has this value');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\x0d7cb484bcc900dc32b36bd2518135f9', 'b06');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\x4162957ab6fda1ad8632dbd13a4105ca', 'b04');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\x48efbffd02e7dd96fe4e5e00a60a163f', 'b03');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\x75d514254cf9f8f8721a2438dff1a432', 'b00');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\x9f69fb7d981385d973ce568e6cb824fc', 'b02');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xb0810b92d1f8c31ed6bc9be95f5c1524', 'b10');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xb311dd693171f32b93eb5712618af626', 'b08');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xd7ae2839bff18f4fff2bc7ab45d4416d', 'b01');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xe74857babf9b3fc7b1ea51d3d7868db6', 'b05');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xeba5ebc1597ab987a8d055afedc60af8', 'b09');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xf441be360e04e0cad431b0ba1a282a3e', 'b11');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xf6bf11fd5a6516463bf10b869e821402', 'b07');
INSERT INTO stored.u_book_shelfmark VALUES (1, '\xe0e54e597881e8fb994d44cc078f9f01', 'b20');
SELECT pg_catalog.setval('stored.api_tokens_id_seq', 3, true);
SELECT pg_catalog.setval('stored.clock', 1795867399224214, true);
SELECT pg_catalog.setval('stored.generations_id_seq', 3, true);
SELECT pg_catalog.setval('stored.jobs_id_seq', 5, true);
SELECT pg_catalog.setval('stored.marks_id_seq', 9, true);
SELECT pg_catalog.setval('stored.record_log_id_seq', 4, true);
SELECT pg_catalog.setval('stored.tenants_id_seq', 1, true);
SELECT pg_catalog.setval('stored.tokens', 4, true);
SELECT pg_catalog.setval('stored.troubles_id_seq', 2, true);
ALTER TABLE ONLY stored.api_tokens
    ADD CONSTRAINT api_tokens_digest_key UNIQUE (digest);
ALTER TABLE ONLY stored.api_tokens
    ADD CONSTRAINT api_tokens_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored.calls
    ADD CONSTRAINT calls_pkey PRIMARY KEY (tenant, id);
ALTER TABLE ONLY stored.chunk_journals
    ADD CONSTRAINT chunk_journals_pkey PRIMARY KEY (job, ordinal);
ALTER TABLE ONLY stored.chunks
    ADD CONSTRAINT chunks_pkey PRIMARY KEY (job, ordinal);
ALTER TABLE ONLY stored.corrections
    ADD CONSTRAINT corrections_pkey PRIMARY KEY (job, document, collection);
ALTER TABLE ONLY stored.edges
    ADD CONSTRAINT edges_pkey PRIMARY KEY (tenant, link, target, grp, start, child);
ALTER TABLE ONLY stored.failed_documents
    ADD CONSTRAINT failed_documents_pkey PRIMARY KEY (job, document);
ALTER TABLE ONLY stored.former
    ADD CONSTRAINT former_pkey PRIMARY KEY (tenant, collection, key, contributor, identity);
ALTER TABLE ONLY stored.generations
    ADD CONSTRAINT generations_hash_key UNIQUE (hash);
ALTER TABLE ONLY stored.generations
    ADD CONSTRAINT generations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored.marks
    ADD CONSTRAINT marks_pkey PRIMARY KEY (id, target);
ALTER TABLE ONLY stored.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY stored.r_book
    ADD CONSTRAINT r_book_pkey PRIMARY KEY (tenant, key);
ALTER TABLE ONLY stored.r_room
    ADD CONSTRAINT r_room_pkey PRIMARY KEY (tenant, key);
ALTER TABLE ONLY stored.record_log
    ADD CONSTRAINT record_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored.tag_stamps
    ADD CONSTRAINT tag_stamps_pkey PRIMARY KEY (tenant);
ALTER TABLE ONLY stored.tagged
    ADD CONSTRAINT tagged_pkey PRIMARY KEY (tenant, collection, key, value);
ALTER TABLE ONLY stored.tags
    ADD CONSTRAINT tags_pkey PRIMARY KEY (tenant, collection, name);
ALTER TABLE ONLY stored.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);
ALTER TABLE ONLY stored.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored.trees
    ADD CONSTRAINT trees_pkey PRIMARY KEY (tenant, collection, key, source);
ALTER TABLE ONLY stored.troubles
    ADD CONSTRAINT troubles_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored.u_book_shelfmark
    ADD CONSTRAINT u_book_shelfmark_pkey PRIMARY KEY (tenant, digest);
CREATE INDEX c_book ON stored.r_book USING btree (tenant, key) WHERE (conflict IS NOT NULL);
CREATE INDEX calls_made ON stored.calls USING btree (made);
CREATE INDEX chunk_journals_first ON stored.chunk_journals USING btree (job, first);
CREATE INDEX chunks_leased ON stored.chunks USING btree (job, ordinal) WHERE (state = 'leased'::text);
CREATE INDEX chunks_waiting ON stored.chunks USING btree (job, ordinal) WHERE (state = 'waiting'::text);
CREATE INDEX g_room_area ON stored.r_room USING gist (b_area);
CREATE INDEX ik_book_words ON stored.i_book_words USING btree (key, tenant);
CREATE INDEX iv_book_words ON stored.i_book_words USING btree (tenant, "left"(value, 600), key);
CREATE INDEX jobs_live ON stored.jobs USING btree (tenant, id) WHERE (finished IS NULL);
CREATE INDEX jobs_tenant ON stored.jobs USING btree (tenant, id);
CREATE INDEX marks_lane ON stored.marks USING btree (tenant, lane, stratum, rule, id);
CREATE INDEX o_book_f_price ON stored.r_book USING btree (tenant, f_price NULLS FIRST);
CREATE INDEX o_book_f_shelfmark ON stored.r_book USING btree (tenant, "left"(f_shelfmark, 600) NULLS FIRST);
CREATE INDEX o_book_s_status ON stored.r_book USING btree (tenant, "left"(s_status, 600) NULLS FIRST);
CREATE INDEX o_book_x_title ON stored.r_book USING btree (tenant, "left"(x_title, 600) NULLS FIRST);
CREATE INDEX record_log_key ON stored.record_log USING btree (tenant, collection, key, id);
CREATE INDEX t_book_title ON stored.r_book USING gin (stored.trigrams(x_title));
CREATE INDEX tagged_value ON stored.tagged USING btree (tenant, collection, value, key);
CREATE INDEX troubles_job ON stored.troubles USING btree (job, document);
CREATE INDEX uk_book_shelfmark ON stored.u_book_shelfmark USING btree (tenant, key);
CREATE INDEX w_book_title ON stored.r_book USING gin (array_to_tsvector(array_remove(string_to_array(replace(w_title, '
'::text, ''::text), ' '::text), ''::text)));
