-- user_frame(frames): the innermost frame of a stack outside the framework's code; NULL if there is none.
CREATE OR REPLACE MACRO user_frame(frames) AS
user_frames(frames)[1]
