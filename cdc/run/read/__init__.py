"""What programs read: tables and views at one cut, the changes of a table, and whether a follower shows a commit."""
