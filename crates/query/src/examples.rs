//! Examples of queries, by which help teaches the language. Each is a query of the catalogue that `docs/query.md` shows, and a test resolves them all.

/// A query, and what it asks for.
pub struct Example {
    /// The query.
    pub query: &'static str,
    /// What it asks for, in words.
    pub about: &'static str,
}

/// Examples about one thing.
pub struct Lesson {
    /// What they are about.
    pub title: &'static str,
    /// From the simplest on.
    pub examples: &'static [Example],
}

const fn example(query: &'static str, about: &'static str) -> Example {
    Example { query, about }
}

/// All examples, in the order in which they are learnt.
pub const LESSONS: &[Lesson] = &[
    Lesson {
        title: "A query names a collection, then conditions, then stages after |",
        examples: &[
            example("book", "all books"),
            example("book=b2", "the book with this key"),
            example(
                "book subjects=sea pages>=200 | grep title, pages | sort pages-",
                "two columns of the long books about the sea, the longest first",
            ),
            example("sea", "words alone: records of all collections in which the word occurs, the best matches first"),
        ],
    },
    Lesson {
        title: "Conditions: = != < <= > >=, in, between, last, ~",
        examples: &[
            example("book title=the*", "a pattern: * is any text, and the pattern covers the whole value"),
            example("book pages in [48, 96]", "one of several values"),
            example("book published between [2020-01-01, 2020-12-31]", "both ends included"),
            example("book acquired last 30d", "from 30 days ago until now"),
            example("book pages!=48", "also records without a value"),
            example("book (pages<100 or subjects=biology) not title=the*", "alternatives, a negation, parentheses"),
            example("book status='on shelf'", "quotes around a value with blanks"),
            example("book authors.name='Åsa Lind'", "a field of the linked records; one of them is enough"),
            example("author book.authors.pages>300", "a link followed backwards: a book of this author"),
            example("book authors.exists=false", "a link to a record that is not there"),
            example("book copy.branch=North", "a member of a list of structs"),
            example("book conflict=pages", "contributors disagree on this field"),
        ],
    },
    Lesson {
        title: "Words: ~ on a field with index: words, or on a collection for all of them; the best matches come first",
        examples: &[
            example("book title ~ sea", "the word occurs in the title"),
            example("book title ~ \"night sea\"", "both words, in any order"),
            example("book summary ~ tid*", "a word that begins so"),
            example("book summary ~ '\"deep sea\"'", "a phrase: double quotes inside of single ones"),
            example("book ~ \"eclairs home\" | grep title, rank", "each word in one of the fields; how well they match"),
        ],
    },
    Lesson {
        title: "Stages: grep, sort, limit, unique, each",
        examples: &[
            example("book | grep title, pages>=200", "grep takes columns and conditions"),
            example("book | sort pages-, title | limit 3", "several fields to sort by; - puts the largest first"),
            example("book | grep subjects | unique", "equal rows once"),
            example("book | each copy | grep id, copy.branch, copy.cost>15", "a row for each struct of a list"),
        ],
    },
    Lesson {
        title: "Numbers: count, count(distinct ..), sum, min, max, avg, median, percentile, by",
        examples: &[
            example("book | count(key), avg(pages), percentile(pages, 95)", "over all books"),
            example("book | count(distinct subjects)", "how many different subjects there are"),
            example("book | count(key) by status, year(published) | sort count(key)-", "a row for each group, the largest group first"),
        ],
    },
];
