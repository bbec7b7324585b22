-- A network: who follows whom, and what they post; and the timelines as one would keep them in Postgres, by fan-out on write.
CREATE TABLE follows (follower_id bigint, followed_id bigint, PRIMARY KEY (follower_id, followed_id));
CREATE INDEX ON follows (followed_id);
CREATE TABLE posts (id bigint PRIMARY KEY, author_id bigint NOT NULL, body text NOT NULL, posted_at timestamptz NOT NULL);
CREATE INDEX ON posts (author_id);
CREATE TABLE timeline (follower_id bigint, post_id bigint, author_id bigint NOT NULL, body text NOT NULL,
    posted_at timestamptz NOT NULL, PRIMARY KEY (follower_id, post_id));

-- Everybody follows somebody, and `fans` of them the first, who is a celebrity.
CREATE PROCEDURE network_follow(people bigint, fans bigint, follows bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO follows SELECT g, 1 FROM generate_series(2, fans + 1) g;
    INSERT INTO follows SELECT 1 + g % people, 2 + (g * 7919 + g / people) % (people - 1)
        FROM generate_series(1, follows - fans) g ON CONFLICT DO NOTHING;
END $$;

CREATE PROCEDURE network_post(people bigint, first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO posts SELECT g, 1 + g % people, 'post ' || g || ' ' || md5(g::text), clock_timestamp()
        FROM generate_series(first, last) g;
END $$;
